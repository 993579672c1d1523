"""Fields of requests, as a person is asked for them: in Airflow's form, on the page and on the command line. Each request has its own fields beside it; here
are those that several have.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streams_recovery.core.words import LATEST, PATTERN


class FieldKind(enum.StrEnum):
    """The values that a field takes. ``topics`` and ``groups`` are lists of names; ``moment`` is a date and a time with its zone; ``count`` is a number that
    is not negative, ``numbers`` are several of them.
    """

    TEXT = "text"
    COUNT = "count"
    NUMBERS = "numbers"
    SWITCH = "switch"
    CHOICE = "choice"
    TOPICS = "topics"
    GROUPS = "groups"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a request, as a person is asked for it. ``option_help`` is what the command line says, and ``option`` its name there, where it is another.
    A field without a ``default`` may be left out; ``required`` says that it may not be empty. A text must match all of ``pattern``. ``choices`` are the
    values, each with what a person is shown for it.
    """

    name: str
    title: str
    kind: FieldKind = FieldKind.TEXT
    help: str | None = None
    option_help: str = ""
    option: str = ""
    default: str | bool | None = None
    required: bool = False
    pattern: str = ""
    longest: int = 500
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def option_name(self) -> str:
        """Its option on the command line."""
        return f"--{self.option or self.name.replace('_', '-')}"

    @property
    def shown(self) -> str:
        """What a message calls it, as a form does; see ``with_options``."""
        return f"`{self.name}`"


def with_options(text: str, fields: Iterable[FormField]) -> str:
    """A message for whoever reads it on the command line: each of these fields that it names is called by its option."""
    for one in fields:
        text = text.replace(one.shown, f"`{one.option_name}`")
    return text


def savepoint_field(*others: str, latest: str = "the newest exact one", **changed: Any) -> FormField:
    """A savepoint's id, ``latest``, or one of the ``others``. ``latest`` says which one that is, in a form and on the command line. ``changed`` are other
    values of its fields.
    """
    plain = FormField(
        name="savepoint",
        title="Savepoint",
        help=f"latest: {latest}",
        option_help=f"Id, or `latest` for {latest}.",
        default=LATEST,
        required=True,
        pattern="|".join((LATEST, *others, PATTERN)),
    )
    return replace(plain, **changed)


def reason_field(kept_with: str) -> FormField:
    """The reason of a request. ``kept_with`` is what it is written into."""
    text = f"Kept with {kept_with}."
    return FormField(name="reason", title="Reason", help=text, option_help=text)


SAVEPOINT: Final = savepoint_field()
CONFIRM: Final = FormField(name="confirm", title="Confirmation", help="Type the application id.", longest=249)
