"""Commands whose options are the form of a request, and what all commands with a plan have."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Final

from streams_recovery.cli.approval import Approve, PlanOnly, approved, reason_of, show_plan, without_reason
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, Configs, Logs, Name, option
from streams_recovery.cli.screen import AsJson
from streams_recovery.core.approval import Approvable
from streams_recovery.core.escaping import Markdown
from streams_recovery.core.forms import CONFIRM, FieldKind, FormField
from streams_recovery.core.restore.request import REASON

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
        """See ``without_reason``. A command that asks for no reason needs none."""
        return without_reason(self.given[REASON.name]) if REASON.name in self.given else ()

    def gave(self, field: FormField) -> bool:
        """True if a field has a value other than its default."""
        return bool(self.given[field.name]) and self.given[field.name] != field.default

    def confirmed(self, application_id: str) -> dict[str, Any]:
        """The given values. They count as confirmed: the plan is shown with all of them, and the application id typed below it, or its hash given."""
        return {**self.given, CONFIRM.name: application_id}

    def agreed(self, planned: Approvable, text: Markdown, *, typed: str) -> bool:
        """Show the plan and return False with ``--plan``. Else True when a person agrees to it: see ``approved``."""
        if self.plan_only:
            show_plan(planned, text, as_json=self.as_json, more=self.more)
            return False
        return approved(planned, text, self.approve, typed=typed)


def asks(*form: FormField, without: Collection[str] = (), **own: Parameter) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function that takes its ``Call``. It asks for the fields of ``form``, of two with one name for the last, and for what else the
    function takes. ``own`` are parameters for fields of the form that are asked for otherwise. ``without`` are parts of a call that it does not have: one
    without Spark jobs has no ``logs``, one that only adds something nothing to ``approve``.
    """

    def command_of(body: Callable[..., None]) -> Callable[..., None]:
        taken = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        parameters = _parameters(form, without=without, own=own, taken=taken)

        def command(**values: Any) -> None:
            common = {name: values.pop(name, default) for name, (_, default) in _COMMON.items()}
            # A word of Python has no parameter of its name.
            given = {name.rstrip("_"): value for name, value in values.items()}
            body(Call(**common, given=given), **{one.name: given[one.name] for one in taken})

        command.__name__, command.__doc__, command.__module__ = body.__name__, body.__doc__, body.__module__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return command_of


def _parameters(
    form: Sequence[FormField], *, without: Collection[str], own: dict[str, Parameter], taken: Sequence[inspect.Parameter]
) -> list[inspect.Parameter]:
    """In the order of the help: what a command needs, what its function takes by position, the reason, where it looks, the rest of its form, and what is done
    with its plan.
    """
    more = {one.name: (one.annotation, one.default) for one in taken}
    asked = {one.name: parameter(one) for one in form if one.name != CONFIRM.name} | own | more
    needed = {name: found for name, found in asked.items() if found[1] is _NEEDED}
    first = {one.name: asked[one.name] for one in taken if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD}
    why = {name: found for name, found in asked.items() if name == REASON.name and name not in more}
    common = {name: found for name, found in _COMMON.items() if name not in without}
    places = {name: common.pop(name) for name in ("configs", "logs") if name in common}
    found = {"name": common.pop("name")} | needed | first | why | places | asked | common
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
