"""What a run's params ask for, as the request of a restore: each field of its type has the value of the param of that name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from streams_recovery.config.as_of import as_of
from streams_recovery.config.directory import config_directory, load_application
from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.names import checked_name
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.restore.single_topics import ReadOn
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import RestoreRequest

Params = Mapping[str, Any]


def request_of(strategy: type[RestoreRequest], recovery: RecoveryContext, asked: Params) -> RestoreRequest:
    """The request. Params that are none of its fields do not count. Raises ``ConfigInvalid`` for one that names nothing."""
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(strategy)):
        read = _READ.get(name)
        values[name] = asked.get(name) if read is None else read(recovery, asked)
    values["safeguards"] = _safeguards(asked, replace=strategy.REPLACES or asked.get("replace", False))
    return strategy(**{name: value for name, value in values.items() if value is not None})


def _source(_: RecoveryContext, asked: Params) -> str:
    name = asked.get("source")
    return load_application(name).application.id if name else ""


def _offsets(recovery: RecoveryContext, asked: Params) -> OffsetStrategy:
    return offset_strategy(recovery.config, asked.get("offsets") or "", read=inside(config_directory()))


def _topics(names: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(checked_name("topic", name) for name in names or ())


def _safeguards(asked: Params, *, replace: bool) -> Safeguards:
    return Safeguards(
        replace=replace,
        delete=_topics(asked.get("delete")),
        safety=SafetyPolicy(asked.get("safety", SafetyPolicy.REQUIRED)),
        confirm=asked.get("confirm") or "",
    )


# Fields that are more than the value of a param. One that is None stays as the type has it.
_READ: Final[Mapping[str, Callable[[RecoveryContext, Params], Any]]] = {
    "reason": lambda _, asked: asked.get("reason") or "",
    "source": _source,
    "offsets": _offsets,
    # Empty is for the configured moment.
    "as_of": lambda recovery, asked: as_of(recovery.config, asked.get("as_of") or "", asked["by"]),
    "cut_at": lambda recovery, asked: as_of(recovery.config, asked["as_of"], asked["by"]) if asked.get("as_of") else None,
    "topics": lambda _, asked: tuple(checked_name("topic", name) for name in asked.get("topics") or ()),
    "partitions": lambda _, asked: tuple(asked.get("partitions") or ()),
    "read_on": lambda _, asked: ReadOn(asked["read_on"]) if "read_on" in asked else None,
    "outputs": lambda _, asked: OutputPolicy(asked["outputs"]) if "outputs" in asked else None,
    "groups": lambda _, asked: tuple(asked.get("groups") or ()),
    "input_topics": lambda _, asked: _topics(asked.get("input_topics")),
    "internal_topics": lambda _, asked: _topics(asked.get("internal_topics")),
    "topology": lambda _, asked: asked.get("topology") or "",
    "before": lambda _, asked: asked.get("before") or "",
    "lose": lambda _, asked: tuple(asked.get("lose") or ()),
    "same": lambda _, asked: tuple(asked.get("same") or ()),
    "watch": lambda _, asked: asked.get("watch") or "",
    "lost": lambda _, asked: asked.get("lost") or "",
    "restore_id": lambda _, asked: asked.get("restore"),
}
