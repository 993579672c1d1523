"""The params of DAGs, each with the schema of what it accepts. What may be left out may be empty, and the form does not mark it as required."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import Param

from streams_recovery.core.forms import FieldKind, FormField
from streams_recovery.core.names import NAME

MOMENT_PATTERN: Final = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}.*(Z|[+-]\d{2}:?\d{2}| [A-Za-z][A-Za-z0-9_+/-]+)$"
# No control characters, and none that turn the direction of writing or have no width.
_SEEN: Final = r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$"
# Of a DAG that is there once for all applications: a run that waits for its approval keeps no other application from being restored. Two runs of one
# application are kept apart by its lock.
RUNS: Final = 32


def of(*fields: FormField) -> dict[str, Param]:
    """The params of a form, by their names."""
    return {field.name: _param(field) for field in fields}


def _param(field: FormField) -> Param:
    made_by = {
        FieldKind.TOPICS: topics,
        FieldKind.GROUPS: groups,
        FieldKind.MOMENT: moment,
        FieldKind.COUNT: count,
        FieldKind.NUMBERS: numbers,
    }
    if field.kind in made_by:
        return made_by[field.kind](field.title, field.help or "")
    if field.kind is FieldKind.SWITCH:
        return switch(field.title, field.help, default=bool(field.default))
    if field.kind is FieldKind.CHOICE:
        return choice(str(field.default or ""), field.title, field.choices, field.help)
    schema: dict[str, Any] = {"pattern": f"^({field.pattern})$"} if field.pattern else {}
    if field.required:
        return Param(field.default, type="string", title=field.title, description=field.help, **schema)
    return Param(field.default, type=["null", "string"], maxLength=field.longest, title=field.title, description=field.help, **schema)


def application(names: Sequence[str], *, title: str = "Application", description: str | None = None) -> Param:
    """Which of the configured applications."""
    return Param(names[0] if len(names) == 1 else None, type="string", enum=list(names), title=title, description=description)


def choice(default: str, title: str, labels: Mapping[str, str], description: str | None = None) -> Param:
    """One of several values, each with what a person is shown for it."""
    return Param(default, type="string", enum=list(labels), values_display=dict(labels), title=title, description=description)


def other_application(names: Sequence[str], title: str, description: str) -> Param:
    """Another of the configured applications, or none."""
    return Param(None, type=["null", "string"], enum=[None, *names], title=title, description=description)


def switch(title: str, description: str | None = None, *, default: bool = False) -> Param:
    """Yes or no."""
    return Param(default=default, type="boolean", title=title, description=description)


def count(title: str, description: str) -> Param:
    """A number that is not negative, or none."""
    return Param(None, type=["null", "integer"], minimum=0, title=title, description=description)


def numbers(title: str, description: str) -> Param:
    """Numbers that are not negative, one a line."""
    return Param(None, type=["null", "array"], items={"type": "integer", "minimum": 0}, title=title, description=description)


def topics(title: str, description: str) -> Param:
    """Names of topics, one a line."""
    return Param(None, type=["null", "array"], items={"type": "string", "pattern": f"^{NAME}$"}, title=title, description=description)


def groups(title: str, description: str) -> Param:
    """Ids of consumer groups, one a line. Kafka allows any character in them; a form takes none that a person could not see."""
    items = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": _SEEN}
    return Param(None, type=["null", "array"], items=items, title=title, description=description)


def moment(title: str, description: str) -> Param:
    """A date and a time, with its time zone."""
    return Param(
        None, type=["null", "string"], format="date-time", maxLength=80, pattern=MOMENT_PATTERN, title=title, description=description
    )
