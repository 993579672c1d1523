"""Forms: how a person is asked for a request, in Airflow, on the page and on the command line. A request says with the type of each of its fields how it is
asked for: ``savepoint: Annotated[str, SAVEPOINT]``. ``Form`` gathers that, and ``request_of`` makes the request from what was given. Fields that several
requests have are here.
"""

from __future__ import annotations

import enum
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar, cast, get_args, get_origin, get_type_hints

from streams_recovery.core.names import checked_name, each_once
from streams_recovery.core.words import LATEST, PATTERN

T = TypeVar("T")


class FieldKind(enum.StrEnum):
    """The values that a field takes. ``topics`` and ``groups`` are lists of names; ``moment`` is a date and a time with its zone; ``count`` is a number that
    is not negative, ``numbers`` are several of them. A ``document`` is a long text, on the command line a file with it. An ``application`` is the name of a
    configured one.
    """

    TEXT = "text"
    DOCUMENT = "document"
    APPLICATION = "application"
    COUNT = "count"
    NUMBERS = "numbers"
    SWITCH = "switch"
    CHOICE = "choice"
    TOPICS = "topics"
    GROUPS = "groups"
    MOMENT = "moment"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form. Its ``name`` is that of the request's field, unless it says another one. ``option_help`` is what the command line says, ``option``
    its name there, where it is another, and ``metavar`` the word for its value. A field without a ``default`` may be left out; ``required`` says that it may
    not be empty. A text must match all of ``pattern``. ``choices`` are the values, each with what a person is shown for it. Fields of a lower ``rank`` come
    first in a form, those of one rank in the order of the request's.
    """

    title: str
    name: str = ""
    kind: FieldKind = FieldKind.TEXT
    help: str | None = None
    option_help: str = ""
    option: str = ""
    metavar: str | None = None
    default: str | bool | None = None
    required: bool = False
    pattern: str = ""
    longest: int = 500
    choices: Mapping[str, str] = field(default_factory=dict)
    rank: int = 0

    @property
    def option_name(self) -> str:
        """Its option on the command line."""
        return f"--{self.option or self.name.replace('_', '-')}"

    @property
    def shown(self) -> str:
        """Its name in a message, as in a form; see ``with_options``."""
        return f"`{self.name}`"


class Form:
    """The form of a request type, as its class attribute ``FORM``: the fields that it asks for, in the order in which they are shown."""

    def __get__(self, _: object, request_type: type) -> tuple[FormField, ...]:
        asked = (one for of_field in asked_for(request_type).values() for one in of_field)
        return tuple(sorted(asked, key=lambda one: one.rank))


@cache
def asked_for(request_type: type) -> Mapping[str, tuple[FormField, ...]]:
    """The form's fields by the request's field that is made of them. A request's field that the form does not ask for has none."""
    hints = get_type_hints(request_type, include_extras=True)
    # What a type says itself comes before what it inherits.
    declared = dict.fromkeys(name for kind in request_type.__mro__ for name in inspect.get_annotations(kind))
    named = {one.name for one in fields(request_type)}
    return {
        name: tuple(
            one if one.name else replace(one, name=name) for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, FormField)
        )
        for name in declared
        if name in named
    }


# Makes a value of what was given for these fields of a form. None leaves the request's field as its type has it.
Reader = Callable[[tuple[FormField, ...], Mapping[str, Any]], Any]


def request_of(request_type: type[T], given: Mapping[str, Any], readers: Mapping[Any, Reader] | None = None, **known: Any) -> T:
    """The request for what was ``given``, by the names of the form's fields; other names do not count. A field that was left out has the type's default, or is
    empty. ``readers`` make the values of types, or of kinds of fields, that take more than what was given. ``known`` are values of fields that the form does
    not ask for. Raises ``ConfigInvalid`` for a name that is not allowed, and what the readers raise.
    """
    hints, values, by_field = get_type_hints(request_type), dict(known), asked_for(cast("Hashable", request_type))
    for one in fields(cast("Any", request_type)):
        asked = by_field[one.name]
        needed = one.default is MISSING and one.default_factory is MISSING
        # A command may ask for less than the whole form.
        if not asked or one.name in known or not (needed or given.keys() & {field.name for field in asked}):
            continue
        value = _read(hints[one.name], asked, given, readers or {})
        if value is not None:
            values[one.name] = value
        elif needed:
            values[one.name] = _empty(hints[one.name])
    return request_type(**values)


def _read(hint: Any, asked: tuple[FormField, ...], given: Mapping[str, Any], readers: Mapping[Any, Reader]) -> Any:
    reader = readers.get(hint) or readers.get(asked[0].kind)
    if reader is not None:
        return reader(asked, given)
    kind: Any = next(one for one in (get_args(hint) if get_origin(hint) is types.UnionType else (hint,)) if one is not types.NoneType)
    if not is_dataclass(kind):
        return _plain(kind, asked[0], given.get(asked[0].name))
    hints = get_type_hints(kind)
    parts = {one.name: _read(hints[one.name], (one,), given, readers) for one in asked}
    return cast("Any", kind)(**{name: value for name, value in parts.items() if value is not None})


def _plain(kind: Any, asked: FormField, value: Any) -> Any:
    if value is None:
        return None
    if get_origin(kind) is tuple:
        each_once(asked.shown, value)
        return tuple(checked_name("topic", name) for name in value) if asked.kind is FieldKind.TOPICS else tuple(value)
    if issubclass(kind, enum.Enum):
        return kind(value) if value else None
    return value


def _empty(hint: Any) -> Any:
    return {str: "", bool: False}.get(hint, () if get_origin(hint) is tuple else None)


def with_options(text: str, fields: Iterable[FormField]) -> str:
    """A message for the command line: each of these fields that it names is called by its option."""
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
    return FormField(name="reason", title="Reason", help=text, option_help=text, rank=LAST)


# What a person says of the whole request comes at the end of its form.
LAST: Final = 9
SAVEPOINT: Final = savepoint_field()
CONFIRM: Final = FormField(name="confirm", title="Confirmation", help="Type the application id.", longest=249, rank=LAST - 1)
