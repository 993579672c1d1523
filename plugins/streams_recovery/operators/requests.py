"""What a run's params ask for, as the request of a restore: a function for each strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streams_recovery.config.as_of import as_of
from streams_recovery.config.directory import config_directory, load_application
from streams_recovery.config.offsets import inside, offset_strategy
from streams_recovery.core.names import checked_name
from streams_recovery.core.offsets.strategies import OffsetStrategy
from streams_recovery.core.restore.request import (
    AsOfMoment,
    FromSavepoint,
    OutputPolicy,
    Rebuild,
    RestoreRequest,
    Safeguards,
    SafetyPolicy,
    Undo,
)
from streams_recovery.operations.context import RecoveryContext

Params = Mapping[str, Any]


def from_savepoint(recovery: RecoveryContext, asked: Params) -> FromSavepoint:
    """All that a savepoint holds."""
    return FromSavepoint(
        source=_source(asked),
        savepoint=asked["savepoint"],
        allow_ahead=asked.get("allow_ahead", False),
        allow_damaged=asked.get("allow_damaged", False),
        offsets=_offsets(recovery, asked),
        safeguards=_safeguards(asked, replace=asked.get("replace", False)),
        reason=asked.get("reason") or "",
        compare_keys=asked.get("compare_keys", False),
    )


def undo(_: RecoveryContext, asked: Params) -> Undo:
    """What was there before a restore. What is there now is always replaced."""
    return Undo(
        restore_id=asked["restore"],
        allow_ahead=asked.get("allow_ahead", False),
        allow_damaged=asked.get("allow_damaged", False),
        safeguards=_safeguards(asked, replace=True),
        reason=asked.get("reason") or "",
        compare_keys=asked.get("compare_keys", False),
    )


def rebuild(recovery: RecoveryContext, asked: Params) -> Rebuild:
    """State built again from the input."""
    return Rebuild(
        offsets=_offsets(recovery, asked),
        outputs=OutputPolicy(asked.get("outputs", OutputPolicy.KEEP)),
        accept_gap=asked.get("accept_gap", False),
        inputs_from=asked.get("inputs_from") or "",
        safeguards=_safeguards(asked, replace=asked.get("replace", False)),
        reason=asked.get("reason") or "",
    )


def as_of_moment(recovery: RecoveryContext, asked: Params) -> AsOfMoment:
    """An application brought to the moment ``as_of``, or to the configured one when that is empty."""
    return AsOfMoment(
        as_of=as_of(recovery.config, asked.get("as_of") or "", asked["by"]),
        source=_source(asked),
        savepoint=asked["savepoint"],
        allow_ahead=asked.get("allow_ahead", False),
        in_place=asked.get("in_place", False),
        groups=tuple(asked.get("groups") or ()),
        safeguards=_safeguards(asked, replace=asked.get("replace", False)),
        reason=asked.get("reason") or "",
        compare_keys=asked.get("compare_keys", False),
    )


REQUESTS: Final[Mapping[str, Callable[[RecoveryContext, Params], RestoreRequest]]] = {
    FromSavepoint.KIND: from_savepoint,
    Undo.KIND: undo,
    Rebuild.KIND: rebuild,
    AsOfMoment.KIND: as_of_moment,
}


def _source(asked: Params) -> str:
    name = asked.get("source")
    return load_application(name).application.id if name else ""


def _offsets(recovery: RecoveryContext, asked: Params) -> OffsetStrategy:
    return offset_strategy(recovery.config, asked.get("offsets") or "", read=inside(config_directory()))


def _safeguards(asked: Params, *, replace: bool) -> Safeguards:
    return Safeguards(
        replace=replace,
        delete=tuple(checked_name("topic", name) for name in asked.get("delete") or ()),
        safety=SafetyPolicy(asked.get("safety", SafetyPolicy.REQUIRED)),
        confirm=asked.get("confirm") or "",
    )
