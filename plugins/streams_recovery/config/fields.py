"""Field types that say in one place what may be written, and refuse what YAML or Python would quietly bend into shape.

Integers and switches may also arrive as text, because a ``${VARIABLE}`` expands to text; ``true`` is never the number 1.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
import types
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
    create_model,
)
from pydantic_core import CoreSchema, core_schema

from streams_recovery.core.connection import web_address
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.names import checked_name, pattern_steps
from streams_recovery.core.words import EPOCH, duration, milliseconds, parse_moment
from streams_recovery.core.written import NumberBounds, TextRule

T = TypeVar("T")

_GLOB = re.compile(r"[a-zA-Z0-9._*?\[\]!-]{1,249}")
_SWITCH = {"true": True, "false": False}
# Airflow takes no longer tag.
MAX_NAME = 100
# Each part of a path is looked up. Linux takes no longer one.
_MOST_PATH = 4096
_MOST_PATTERN = 500
# Characters that patterns mostly have, and names never.
_PATTERN_SIGNS = frozenset("*+?[](){}|^$\\")
# Some seconds for the worst of names.
_MOST_STEPS = 1e8
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class WholeNumber(int):
    """A whole number of a file, with the text that it was written as: ``010`` in an environment is not 10."""

    written: str


class Decimal(float):
    """A number with a point of a file, with the text that it was written as: ``3.10`` in an environment is not 3.1."""

    written: str


class Section(BaseModel):
    """Base of every part of a configuration: frozen, and an unknown key is an error, because it is a typing mistake that would cost dearly later."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


def explained(check: Callable[[str], str]) -> Callable[[str], str]:
    """``check`` as a validator: what it refuses with ``ConfigInvalid`` becomes a problem of its key, with the file and the line."""

    def checked(value: str) -> str:
        try:
            return check(value)
        except ConfigInvalid as error:
            raise ValueError(f"{error.reason}: {error.next_step}") from error

    return checked


def accepted_by(check: Callable[[str], object]) -> Callable[[str], str]:
    """A validator that leaves a text as it is, if ``check`` does not refuse it."""

    def accepted(value: str) -> str:
        check(value)
        return value

    return explained(accepted)


def named(what: str) -> Callable[[str], str]:
    """A validator that holds a name to the one allow-list."""
    return explained(lambda value: checked_name(what, value))


def _no_pattern(value: Any) -> Any:
    if isinstance(value, str) and _PATTERN_SIGNS & set(value):
        raise ValueError(f"{value[:60]!r} is no topic's name; a pattern belongs into topics.input_patterns")
    return value


def _configuration_name(value: str) -> str:
    if len(value) > MAX_NAME:
        raise ValueError(f"a name has {MAX_NAME} characters at most, this one has {len(value)}: it is a tag and a part of ids in Airflow")
    return named("configuration name")(value)


def whole(value: Any) -> Any:
    """A validator that takes whole numbers only, also as text."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"expected a whole number, found {value!r:.60}")  # noqa: TRY004 - pydantic collects ValueError only
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"expected a number, found {value!r}")  # noqa: TRY004 - as above
    return value


def _moment(value: Any) -> Any:
    if isinstance(value, datetime):
        return value
    # A number would be taken for seconds or milliseconds: 20261121 for a day in 1970.
    if not isinstance(value, str):
        raise ValueError(f"expected a moment with its time zone, such as 2026-11-21T12:00:00Z, found {value!r:.60}")  # noqa: TRY004 - as above
    try:
        return EPOCH + timedelta(milliseconds=parse_moment(value))
    except ConfigInvalid as error:
        raise ValueError(f"{error.reason}: {error.next_step}") from error
    except OverflowError as error:
        raise ValueError(f"{value[:60]!r} is not in the calendar in UTC") from error


def _switch(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in _SWITCH:
        return _SWITCH[value.lower()]
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, found {value!r:.60}")  # noqa: TRY004 - as above
    return value


def _glob(value: str) -> str:
    if not _GLOB.fullmatch(value):
        raise ValueError(f"{value[:60]!r} is not a glob: use name characters and * ? [ ]")
    return value


def _has_set_in_set(pattern: str) -> bool:
    """True where a set of characters has another one in it, or ``&&``: Java joins or intersects them, Python takes these signs for characters."""
    plain, inside = re.sub(r"\\.", "x", pattern), False
    for at, char in enumerate(plain):
        if inside and (char == "[" or plain.startswith("&&", at)):
            return True
        inside = char == "[" or (inside and char != "]")
    return False


def _topic_pattern(value: str) -> str:
    """A regular expression as the program has it, which is Java's. Expressions that the two languages write differently are refused, not guessed."""
    if len(value) > _MOST_PATTERN:
        raise ValueError(f"a pattern has at most {_MOST_PATTERN} characters, this one has {len(value)}")
    # First: compiling such a one warns.
    if _has_set_in_set(value):
        raise ValueError(
            f"{value[:60]!r} has a set of characters within a set, which Java and Python read differently; write the characters out"
        )
    try:
        re.compile(_plain(value))
    except re.error as error:
        raise ValueError(f"{value[:60]!r} cannot be read as a regular expression: {error}") from error
    if pattern_steps(value) > _MOST_STEPS:
        raise ValueError(
            f"{value[:60]!r} may take forever for a long name, because parts of it can be read in many ways; let nothing that repeats be within what repeats, "
            "and have at most three repetitions that do not end at the next character, as [^.]+ does in [^.]+\\.x"
        )
    return value


def _plain(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("expected text without control characters")
    return value


def _path(value: str, info: ValidationInfo) -> str:
    """Absolute: tasks run in whatever directory their worker was started in. Relative ones count from the configuration file."""
    base = (info.context or {}).get("directory", ".")
    if len(value) > _MOST_PATH:
        raise ValueError(f"a path has at most {_MOST_PATH} characters, this one has {len(value)}")
    try:
        return str((Path(base) / Path(_plain(value)).expanduser()).resolve())
    except RuntimeError as error:
        raise ValueError(f"{value[:60]!r} begins with a user who has no home directory here; write the path out") from error


def _url(value: str) -> str:
    web_address(value)
    return value.rstrip("/")


def _route(value: str) -> str:
    if not value.startswith("/") or any(character.isspace() for character in value):
        raise ValueError(f"{value[:60]!r} is not a path on the instance: start it with /")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name, content in value.items():
        if not _VARIABLE_NAME.fullmatch(name) or "\0" in content:
            raise ValueError(f"{name[:60]!r} cannot be an environment variable")
    return value


def _argv(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0] or any("\0" in part for part in value):
        raise ValueError("expected a program and its arguments as a list")
    return value


def _text(value: Any) -> Any:
    # An environment or argument list is full of numbers that people do not quote. They are meant as they are written.
    if isinstance(value, WholeNumber | Decimal):
        return value.written
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _field_path(value: str) -> str:
    if not all(_plain(value).split(".")):
        raise ValueError(f"{value[:60]!r} is no field: write its name, with a dot between it and the one it is in")
    return value


Duration = Annotated[str, AfterValidator(accepted_by(milliseconds))]
Integer = Annotated[int, BeforeValidator(whole)]
Seconds = Annotated[Integer, Field(ge=1, le=86_400)]
Number = Annotated[float, BeforeValidator(_number)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Text = Annotated[str, AfterValidator(_plain)]
Argument = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number"]})]
Argv = Annotated[tuple[Argument, ...], AfterValidator(_argv)]
Environment = Annotated[dict[str, Argument], AfterValidator(_environment)]
InputName = Annotated[str, BeforeValidator(_no_pattern), AfterValidator(named("topic"))]
TopicName = Annotated[str, AfterValidator(named("topic"))]
TopicPattern = Annotated[str, AfterValidator(_topic_pattern)]
# Each is asked of each name.
Globs = Annotated[tuple[Annotated[str, AfterValidator(_glob)], ...], Field(max_length=1_000)]
StoreName = Annotated[str, AfterValidator(named("store"))]
ApplicationId = Annotated[str, AfterValidator(named("application id"))]
ConfigurationName = Annotated[str, AfterValidator(_configuration_name)]
InstanceName = Annotated[str, AfterValidator(named("instance"))]
ConnectionId = Annotated[str, AfterValidator(named("connection id"))]
LocalPath = Annotated[str, AfterValidator(_path)]
Url = Annotated[str, AfterValidator(_url)]
Route = Annotated[str, AfterValidator(_route)]
# A field of a document, or one of an object in it: ``meta.written_at``.
FieldPath = Annotated[str, Field(max_length=1_000), AfterValidator(_field_path)]
# As in a form: with an offset, or with the name of a zone.
Moment = Annotated[AwareDatetime, BeforeValidator(_moment), WithJsonSchema({"type": "string"})]


_TEXTS: Final = {
    TextRule.DURATION: Duration,
    TextRule.TOPICS: tuple[TopicName, ...],
    TextRule.INPUTS: tuple[InputName, ...],
    TextRule.PATTERNS: Annotated[tuple[TopicPattern, ...], Field(max_length=100)],
    TextRule.GLOBS: Globs,
}


def _written(hint: Any) -> Any:
    """The type of what a person writes for a field of a value of the core."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain, rule = inner
        if isinstance(rule, NumberBounds):
            return Annotated[
                Integer if plain is int or rule.whole else Number, Field(ge=rule.least, gt=rule.above, le=rule.most, lt=rule.below)
            ]
        return _TEXTS[rule]
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_written, inner))
    return hint


def _is_duration(hint: Any) -> bool:
    return TextRule.DURATION in get_args(hint) or any(map(_is_duration, get_args(hint)))


@dataclasses.dataclass(frozen=True, slots=True)
class AsSection:
    """An annotation for a key below which a value of the core is written, a frozen dataclass of this ``kind``. It is read, and refused, as a section is whose
    keys are the fields; ``check`` raises ``ValueError`` for one that contradicts itself.
    """

    kind: type
    check: Callable[[Any], None] = lambda _value: None

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            self._read,
            handler.generate_schema(section_of(self.kind)),
            serialization=core_schema.plain_serializer_function_ser_schema(self._plain),
        )

    def _read(self, value: Any, read: Callable[[Any], Any]) -> Any:
        if isinstance(value, self.kind):
            return value
        made = self.kind(**_each(self.kind, read(value), _value))
        self.check(made)
        return made

    def _plain(self, value: Any) -> dict[str, Any]:
        return _each(self.kind, value, _text_of)


@cache
def section_of(kind: type) -> type[Section]:
    """The section whose keys are the fields of a value of the core, with the values that a person writes."""
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {
        one.name: (_written(hints[one.name]), ... if one.default is dataclasses.MISSING else _text_of(hints[one.name], one.default))
        for one in dataclasses.fields(kind)
    }
    return create_model(kind.__name__, __base__=Section, __doc__=kind.__doc__, **fields)


def _each(kind: type, value: Any, change: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The fields of a value, each changed by its type."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: change(hints[one.name], getattr(value, one.name)) for one in dataclasses.fields(kind)}


def _value(hint: Any, written: Any) -> Any:
    return milliseconds(written) / 1000 if _is_duration(hint) and written is not None else written


def _text_of(hint: Any, value: Any) -> Any:
    return duration(value) if _is_duration(hint) and value is not None else value


def default_of(kind: type[T]) -> T:
    """The default of a key with ``AsSection``, where nothing below it has to be given."""
    return cast("T", Field(default=section_of(cast("Any", kind))(), validate_default=True))
