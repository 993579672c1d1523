"""Converts frozen dataclasses to JSON and back. Reading is as strict as writing.

Unknown keys, missing keys and values of the wrong type raise ``Damaged``, so that a manifest is never used in part. So does everything that this
software never writes: numbers of more than 64 bits, text that is not UTF-8, and JSON that is too expensive to parse. Keys of mappings are strings, or are
stored as strings. A field with the metadata ``LEFT_OUT`` is stored only where it is not None. Enums are stored by value, tuples as lists. A dataclass that is
a member of a union has a ``KIND``, which is stored with it. Do not use this for secrets: everything encoded can be read by people.

A parser of JSON creates an object for every two or three characters. So a few well-compressed kilobytes can become gigabytes in memory, and deep nesting
overflows the interpreter's stack. The text is measured first, in pieces, without extra memory.

Each type has a reader, which is made once and kept. The place of a value is a chain, outermost first, and becomes a text only in an error: a status of
1,000 savepoints has 30,000 values.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from reprlib import Repr
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar, cast

from streams_recovery.core.errors import Damaged, PermanentError

T = TypeVar("T")
KIND: Final = "kind"
# Metadata of a field of a dataclass that is None in all that was written before there was such a field.
LEFT_OUT: Final = {"left out": True}
SPREAD: Final = "spread"
# The name of an object, or a value in another one: by its field or key, or by its number in a list.
Place = str | tuple["Place", str | int]
Reader = Callable[[Any, Place], Any]
# A manifest of a million files. The largest valid one and the worst malicious one cost about the same memory.
MOST_BYTES: Final = 512 << 20
# One entry of a log, and all other objects that do not describe all partitions.
MOST_BYTES_OF_ENTRY: Final = 16 << 20
_MOST_VALUES: Final = 24_000_000
# JSON that this software writes has at least ten bytes for each value.
_BYTES_A_VALUE: Final = 8
_VALUES_FREE: Final = 1 << 16
_DEEPEST: Final = 32
_DEEPEST_DOCUMENT: Final = 200
_PIECE: Final = 1 << 18
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_MARKS: Final = b'"[]{},'
_NO_MARKS: Final = bytes(sorted(set(range(256)) - set(_MARKS)))
_NO_BRACKETS: Final = b'",'
_INT64: Final = range(-(2**63), 2**63)
_SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_SHOWN_KEY: Final = 80
_NOT_OURS: Final = "check that this object was written by a supported version and was not edited"
_shown: Final = Repr()
_shown.maxstring = _shown.maxother = _SHOWN_KEY


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """The way in which one field of a dataclass is stored that has a union of dataclasses: not as an object of its own, but with its fields among those of the
    object that it is in. It is the metadata of the field, under ``SPREAD``. ``keys`` are the names that are stored; those that are no fields of the value are
    null, and those of ``later``, which older objects do not have, are left out then. ``member`` says of a stored object which type its value has.
    """

    keys: tuple[str, ...]
    member: Callable[[Mapping[str, Any]], type]
    later: frozenset[str] = frozenset()


class StoredAs:
    """A value that is stored as a value of another type, ``stored_kind``. One that is stored as text can be a key too, if no two texts are one value."""

    __slots__ = ()
    stored_kind: ClassVar[type]

    def to_stored(self) -> object:
        """The value to store instead."""
        raise NotImplementedError

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """The inverse of ``to_stored``."""
        raise NotImplementedError


class Unusable(ValueError):
    """Raised for text that is not JSON, or that costs more to parse than anything this software writes. The message does not quote the text."""


def encode(value: Any) -> Any:
    """A dataclass, enum, tuple, mapping or scalar as a plain JSON value."""
    of: Any = type(value)
    if of in _SCALARS:
        return value
    if (names := _names(of)) is not None:
        gone = [name for name in _may_be_left_out(of) if getattr(value, name) is None]
        there, spreads = [name for name in names if name not in gone] if gone else names, _spreads(of)
        fields = _spread_out(value, there, spreads) if spreads else {name: encode(getattr(value, name)) for name in there}
        return fields if (kind := _kind_of(of)) is None else {KIND: kind, **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, StoredAs):
        return encode(value.to_stored())
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key if type(key) is str else str(encode(key)): encode(item) for key, item in value.items()}
    return value


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass. A manifest has a million values of a few: they are looked up once."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


@cache
def _may_be_left_out(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(cast("Any", kind)) if field.metadata == LEFT_OUT)


@cache
def _spreads(kind: Any) -> Mapping[str, Spread]:
    return {field.name: field.metadata[SPREAD] for field in dataclasses.fields(kind) if SPREAD in field.metadata}


def _spread_out(value: Any, names: Sequence[str], spreads: Mapping[str, Spread]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in names:
        part = getattr(value, name)
        if name in spreads:
            has = _names(cast("Any", type(part))) or ()
            fields |= {
                key: encode(getattr(part, key)) if key in has else None
                for key in spreads[name].keys
                if key in has or key not in spreads[name].later
            }
        else:
            fields[name] = encode(part)
    return fields


def fields_of(kind: type[T], value: T) -> dict[str, Any]:
    """The fields that ``value`` has by its base class ``kind``, to make another value that has that base."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(cast("Any", kind))}


def dumps(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no white space, UTF-8. Equal values give equal bytes, so their hash identifies the value."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def loads(kind: type[T], data: bytes, *, where: str, most_bytes: int = MOST_BYTES) -> T:
    """Parse ``data`` as a ``kind``. ``where`` names the object in errors. Raises ``Damaged``."""
    why = ""
    try:
        plain = parsed(data, most_bytes=most_bytes)
    except Unusable as error:
        why = str(error)
    if why:
        raise Damaged(
            f"{where} is not JSON that this software writes: {why}",
            next_step="put this object back from a copy, or do without it, and find out who wrote it",
            where=where,
        )
    return cast("T", decode(kind, plain, where=where))


def decode(kind: Any, plain: Any, *, where: str) -> Any:
    """Convert a plain JSON value to a ``kind``. Raises ``Damaged`` with the path of the first value that does not fit."""
    return reader(kind)(plain, where)


def parsed(data: bytes, *, most_bytes: int = MOST_BYTES) -> Any:
    """Parse UTF-8 JSON. ``NaN`` and infinities are refused. Raises ``Unusable``."""
    measure(data, most_bytes=most_bytes)
    why = ""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: {error.reason} at byte {error.start}"
    except ValueError as error:
        why = str(error)
    # Raised outside of the handlers: the parser's error would keep the whole text in memory as long as this error exists.
    raise Unusable(why)


def measure(data: bytes, *, most_bytes: int = MOST_BYTES) -> None:
    """Raise ``Unusable`` for a text that is too long, too deep, or has too many values for its length. Does not check whether it is valid JSON."""
    if len(data) > most_bytes:
        raise Unusable(f"it has {len(data)} bytes, the limit is {most_bytes}")
    most = min(_MOST_VALUES, _VALUES_FREE + len(data) // _BYTES_A_VALUE)
    values = 1
    for marks in _checked_depth(data, _DEEPEST):
        values += marks.count(b",") + marks.count(b"[") + marks.count(b"{")
        if values > most:
            raise Unusable(f"it has more than {most} values in {len(data)} bytes")


def document(text: str, *, fraction: Callable[[str], Any] = float, members: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON that an application wrote. The length is not limited, but the depth is. ``fraction`` makes a value of a number that is not whole, and
    ``members`` one of an object. Raises ``Unusable``.
    """
    if text.count("[") + text.count("{") > _DEEPEST_DOCUMENT:
        for _ in _checked_depth(text.encode(errors="replace"), _DEEPEST_DOCUMENT):
            pass
    why = ""
    try:
        return json.loads(text, parse_float=fraction, object_pairs_hook=members)
    except ValueError as error:
        why = str(error)
    raise Unusable(why)


def _checked_depth(data: bytes, deepest: int) -> Iterator[bytes]:
    """The JSON delimiters outside of strings, piece by piece. Raises ``Unusable`` if they nest too deeply."""
    # Remove pairs of backslashes from the left. A remaining backslash escapes the next character.
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in data else data
    inside, depth = 0, 0
    for at in range(0, len(plain), _PIECE):
        parts = plain[at : at + _PIECE].translate(None, _NO_MARKS).split(b'"')
        marks = b"".join(parts[inside::2])
        inside = (inside + len(parts) - 1) % 2
        depths = list(accumulate(map(_STEPS.__getitem__, marks.translate(None, _NO_BRACKETS)), initial=depth))
        depth = depths[-1]
        if max(depths) > deepest:
            raise Unusable(f"it is nested deeper than {deepest} levels")
        yield marks


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _kind_of(kind: Any) -> str | None:
    """The name that is stored with a dataclass that is a member of a union, None for any other type."""
    return getattr(kind, "KIND", None)


@cache
def reader(kind: Any) -> Reader:
    """The reader of a type. It raises ``Damaged`` with the place of the first value that does not fit."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda plain, _place: plain
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _list(reader(arguments[0]))
    if origin in (dict, Mapping):
        return _mapping(_text if arguments[0] is str else reader(arguments[0]), reader(arguments[1]))
    if origin is typing.Literal:
        return _literal(arguments)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    if isinstance(kind, type) and issubclass(kind, StoredAs):
        return _stored(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enum(kind)
    return _QUICK.get(kind, lambda plain, place: _scalar(kind, plain, place))


def _union(arguments: tuple[Any, ...]) -> Reader:
    options = [option for option in arguments if option is not type(None)]
    read = reader(options[0]) if len(options) == 1 else _one_of(options)
    if len(options) == len(arguments):
        return lambda plain, place: read(plain, place) if plain is not None else _wrong("a value", plain, place)
    return lambda plain, place: None if plain is None else read(plain, place)


def _one_of(options: list[Any]) -> Reader:
    kinds = [_kind_of(option) for option in options]

    def read(plain: Any, place: Place) -> Any:
        named = plain.get(KIND) if isinstance(plain, dict) else None
        # Compared one by one, because the value may have any type.
        if named not in kinds:
            _wrong(f"an object whose {KIND} is one of {kinds}", plain, place)
        return reader(options[kinds.index(named)])(plain, place)

    return read


def _list(item: Reader) -> Reader:
    def read(plain: Any, place: Place) -> Any:
        if not isinstance(plain, list):
            _wrong("a list", plain, place)
        return tuple([item(one, (place, index)) for index, one in enumerate(plain)])

    return read


def _mapping(key: Reader, value: Reader) -> Reader:
    def read(plain: Any, place: Place) -> Any:
        if not isinstance(plain, dict):
            _wrong("an object", plain, place)
        return {key(name, place): value(item, (place, f".{name:.{_SHOWN_KEY}}")) for name, item in plain.items()}

    return read


def _literal(options: tuple[Any, ...]) -> Reader:
    def read(plain: Any, place: Place) -> Any:
        # 1, 1.0 and true are equal in Python, but different in JSON.
        if not any(plain == option and type(plain) is type(option) for option in options):
            _wrong(f"one of {options}", plain, place)
        return plain

    return read


def _dataclass(kind: Any) -> Reader:
    name = _kind_of(kind)

    def read(plain: Any, place: Place) -> Any:
        if not isinstance(plain, dict):
            _wrong("an object", plain, place)
        if name is not None:
            if plain.get(KIND) != name:
                _wrong(f"an object whose {KIND} is {name}", plain, place)
            plain = {key: value for key, value in plain.items() if key != KIND}
        later = [key for spread in _spreads(kind).values() for key in spread.later]
        stored = _keys(kind) - {field for field in (*_may_be_left_out(kind), *later) if plain.get(field) is None}
        if plain.keys() != stored:
            unknown, missing = sorted(plain.keys() - stored), sorted(stored - plain.keys())
            _wrong(f"the keys of {kind.__name__}", {"unknown": unknown, "missing": missing}, place)
        fields = {field: read(plain[field], (place, named)) for field, (named, read) in _fields(kind).items() if field in stored}
        fields |= {field: _gathered(spread, plain, place) for field, spread in _spreads(kind).items()}
        return _made(lambda: kind(**fields), place)

    return read


def _gathered(spread: Spread, plain: Mapping[str, Any], place: Place) -> Any:
    member: Any = spread.member(plain)
    readers = _fields(member)
    for key in spread.keys:
        if key not in readers and plain.get(key) is not None:
            _wrong("null", plain[key], (place, f".{key}"))
    fields = {key: readers[key][1](plain.get(key), (place, f".{key}")) for key in spread.keys if key in readers}
    return _made(lambda: member(**fields), place)


@cache
def _fields(kind: type) -> dict[str, tuple[str, Reader]]:
    # Not before the first value is read: a dataclass may have fields of its own type.
    hints = ((name, hint) for name, hint in typing.get_type_hints(kind).items() if name not in _spreads(kind))
    return {name: (f".{name}", reader(hint)) for name, hint in hints if ClassVar not in (hint, typing.get_origin(hint))}


@cache
def _keys(kind: type) -> frozenset[str]:
    return frozenset((*_fields(kind), *(key for spread in _spreads(kind).values() for key in spread.keys)))


def _stored(kind: type[StoredAs]) -> Reader:
    read_stored = reader(kind.stored_kind)

    def read(plain: Any, place: Place) -> Any:
        stored = read_stored(plain, place)
        return _made(lambda: kind.from_stored(stored), place)

    return read


def _enum(kind: type[enum.Enum]) -> Reader:
    members = {member.value: member for member in kind}

    def read(plain: Any, place: Place) -> Any:
        if not isinstance(plain, str) or plain not in members:
            _wrong(f"one of {list(members)}", plain, place)
        return members[plain]

    return read


def _made(make: Callable[[], Any], place: Place) -> Any:
    try:
        return make()
    except PermanentError as error:
        # A value's own check does not know which object the value came from.
        where = _where(place)
        raise Damaged(f"{where}: {error.reason}", next_step=_NOT_OURS, **(error.facts | {"where": where})) from None


def _scalar(kind: Any, plain: Any, place: Place) -> Any:
    # bool is an int in Python; JSON keeps them apart and so do we.
    whole = isinstance(plain, int) and not isinstance(plain, bool)
    if whole and kind in (int, float):
        return kind(plain) if plain in _INT64 else _wrong("a number of at most 64 bits", plain, place)
    if isinstance(plain, float) and kind is float:
        return plain if math.isfinite(plain) else _wrong("a finite number", plain, place)
    if not isinstance(plain, kind) or kind is int:
        _wrong(kind.__name__, plain, place)
    return _text(plain, place) if isinstance(plain, str) else plain


# What nearly every value is. The rest is judged by the slower check, which also has the words for what is wrong.
_QUICK: Final[Mapping[Any, Reader]] = {
    str: lambda plain, place: plain if type(plain) is str and plain.isascii() else _scalar(str, plain, place),
    int: lambda plain, place: plain if type(plain) is int and plain in _INT64 else _scalar(int, plain, place),
}


def _text(plain: str, place: Place) -> str:
    """The text, if it can be encoded as UTF-8. JSON can contain unpaired surrogates, which UTF-8 cannot encode."""
    why = ""
    try:
        if not plain.isascii():
            plain.encode()
    except UnicodeEncodeError as error:
        why = f"text in UTF-8 ({error.reason} at {error.start})"
    return _wrong(why, plain, place) if why else plain


def _wrong(wanted: str, found: object, place: Place) -> NoReturn:
    where = _where(place)
    raise Damaged(f"{where}: expected {wanted}, found {_shown.repr(found)}", next_step=_NOT_OURS, where=where)


def _where(place: Place) -> str:
    parts: list[str] = []
    while isinstance(place, tuple):
        place, part = place
        parts.append(part if isinstance(part, str) else f"[{part}]")
    return place + "".join(reversed(parts))
