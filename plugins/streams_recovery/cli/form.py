"""Commands whose options are the form of a request, and their calls, from which the typed request is made."""

from __future__ import annotations

import enum
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Final

from streams_recovery.cli.approval import Approve, PlanOnly, reason_of, without_reason
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, option
from streams_recovery.config.loader import load_named
from streams_recovery.config.offsets import anywhere, inside
from streams_recovery.core.forms import CONFIRM, FieldKind, FormField
from streams_recovery.core.restore.request import OFFSETS, REASON
from streams_recovery.operations.compatibility import text_of_file
from streams_recovery.operations.restore.strategies.requested import RequestReader, S

# A parameter of a command: its type and its default.
Parameter = tuple[Any, Any]
_NEEDED: Final = inspect.Parameter.empty
_COMMON: Final[Mapping[str, Parameter]] = {
    "name": (Name, _NEEDED),
    "configs": (Configs, DEFAULT_CONFIGS),
    "logs": (Logs, DEFAULT_LOGS),
    "plan_only": (PlanOnly, False),
    "approve": (Approve, None),
    "as_json": (AsJson, False),
}
_TYPES: Final[Mapping[FieldKind, Any]] = {
    FieldKind.SWITCH: bool,
    FieldKind.COUNT: int | None,
    FieldKind.DOCUMENT: Path | None,
    FieldKind.NUMBERS: list[int] | None,
    FieldKind.TOPICS: list[str] | None,
    FieldKind.GROUPS: list[str] | None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call of a command: what all of them take, and what was ``given`` for the fields of its form, by their names."""

    name: str
    configs: Path
    logs: Path
    plan_only: bool
    approve: str | None
    as_json: bool
    given: Mapping[str, Any]

    @property
    def reason(self) -> str:
        """See ``reason_of``."""
        return reason_of(self.given[REASON.name], plan_only=self.plan_only)

    @property
    def more(self) -> tuple[str, ...]:
        """See ``without_reason``."""
        return without_reason(self.given[REASON.name])

    def gave(self, field: FormField) -> bool:
        """True if a field has another value than the one that it begins with."""
        return bool(self.given[field.name]) and self.given[field.name] != field.default

    def confirmed(self, application_id: str) -> dict[str, Any]:
        """What was given. It counts as confirmed: the plan is shown with all of it, and the application id typed below it, or its hash given."""
        return {**self.given, CONFIRM.name: application_id}

    def request(self, strategy: type[S]) -> S:
        """The request for a restore by this strategy. Raises ``BadParameter`` without a reason, and ``ConfigInvalid`` for what names nothing."""
        config = load_named(self.name, self.configs, os.environ)
        reader = RequestReader(
            config=config,
            application=lambda name: load_named(name, self.configs, os.environ),
            # A configuration names files beside it, a person at a terminal any.
            read=anywhere if self.given.get(OFFSETS.name) else inside(self.configs),
        )
        return reader.request(strategy, self.confirmed(config.application.id) | {REASON.name: self.reason})


def asks(*form: FormField, without: Collection[str] = (), **own: Parameter) -> Callable[[Callable[[Call], None]], Callable[..., None]]:
    """Make a command that asks for the fields of ``form``, of two with one name for the last. ``own`` are parameters that it has otherwise, or besides.
    ``without`` are parts of a call that it does not have: one without Spark jobs has no ``logs``, one that only adds something nothing to ``approve``.
    """
    parameters = _parameters(form, without=without, own=own)

    def command_of(body: Callable[[Call], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            common = {name: values.pop(name, default) for name, (_, default) in _COMMON.items()}
            # A word of Python has no parameter of its name.
            given = {name.rstrip("_"): text_of_file(value) if isinstance(value, Path) else value for name, value in values.items()}
            body(Call(**common, given=given))

        command.__name__, command.__doc__, command.__module__ = body.__name__, body.__doc__, body.__module__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return command_of


def _parameters(form: Sequence[FormField], *, without: Collection[str], own: dict[str, Parameter]) -> list[inspect.Parameter]:
    """In the order of the help: what a command needs, why it is called, where it looks, the rest of its form, and what is done with its plan."""
    asked = {one.name: parameter(one) for one in form if one.name != CONFIRM.name} | own
    needed = {name: found for name, found in asked.items() if found[1] is _NEEDED}
    why = {name: found for name, found in asked.items() if name == REASON.name}
    common = {name: found for name, found in _COMMON.items() if name not in without}
    places = {name: common.pop(name) for name in ("configs", "logs") if name in common}
    found = {"name": common.pop("name")} | needed | why | places | asked | common
    return [
        inspect.Parameter(f"{name}_" if iskeyword(name) else name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in found.items()
    ]


def parameter(field: FormField, **more: Any) -> Parameter:
    """The parameter of a command for a field of its form, with its option. ``more`` is what only the command line knows of it."""
    if field.kind is FieldKind.CHOICE:
        kind: Any = enum.StrEnum
        kind = kind(field.name, {value: value for value in field.choices if value})
        begins = kind(field.default) if field.default else None
        kind = kind if field.default else kind | None
    else:
        kind = _TYPES.get(field.kind, str)
        begins = field.default if field.default is not None else {bool: False, str: ""}.get(kind)
    least = {"min": 0} if field.kind in (FieldKind.COUNT, FieldKind.NUMBERS) else {}
    return Annotated[kind, option(field, **least, **more)], _NEEDED if field.required and field.default is None else begins
