"""Converts frozen dataclasses to JSON and back. Reading is as strict as writing.

Unknown keys, missing keys and values of the wrong type raise ``Damaged``, so that a manifest is never used in part. So does everything that this
software never writes: numbers of more than 64 bits, text that is not UTF-8, and JSON that is too expensive to parse (``bounded_json``). Mappings need
string keys. Enums are stored by value, tuples as lists. A dataclass that is a member of a union has a ``KIND``, which is stored with it. Do not use
this for secrets: everything encoded can be read by people.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from reprlib import Repr
from typing import Any, ClassVar, Final, Self, TypeVar, cast

from streams_recovery.core import bounded_json
from streams_recovery.core.bounded_json import MOST_BYTES, Unusable
from streams_recovery.core.errors import Damaged, PermanentError

T = TypeVar("T")


class StoredAs:
    """A value that is stored as a value of another type, ``stored_kind``."""

    __slots__ = ()
    stored_kind: ClassVar[type]

    def to_stored(self) -> object:
        """The value to store instead."""
        raise NotImplementedError

    @classmethod
    def from_stored(cls, stored: object) -> Self:
        """The inverse of ``to_stored``."""
        raise NotImplementedError


_INT64: Final = range(-(2**63), 2**63)
_SHOWN_KEY: Final = 80
_KIND: Final = "kind"
_NOT_OURS: Final = "check that this object was written by a supported version and was not edited"
_shown: Final = Repr()
_shown.maxstring = _shown.maxother = _SHOWN_KEY


def encode(value: Any) -> Any:
    """A dataclass, enum, tuple, mapping or scalar as a plain JSON value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return fields if (name := _kind_of(type(value))) is None else {_KIND: name, **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, StoredAs):
        return encode(value.to_stored())
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no white space, UTF-8. Equal values give equal bytes, so their hash identifies the value."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def loads(kind: type[T], data: bytes, *, where: str, most_bytes: int = MOST_BYTES) -> T:
    """Parse ``data`` as a ``kind``. ``where`` names the object in errors. Raises ``Damaged``."""
    why = ""
    try:
        plain = bounded_json.parsed(data, most_bytes=most_bytes)
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
    origin = typing.get_origin(kind)
    if kind is Any:
        return plain
    if origin in (typing.Union, types.UnionType):
        return _decode_union(kind, plain, where)
    if origin is tuple:
        _expect(isinstance(plain, list), "a list", plain, where)
        return tuple(decode(typing.get_args(kind)[0], item, where=f"{where}[{index}]") for index, item in enumerate(plain))
    if origin in (dict, Mapping):
        _expect(isinstance(plain, dict), "an object", plain, where)
        value_kind = typing.get_args(kind)[1]
        return {_text(key, where): decode(value_kind, item, where=f"{where}.{key:.{_SHOWN_KEY}}") for key, item in plain.items()}
    if origin is typing.Literal:
        # 1, 1.0 and true are equal in Python, but different in JSON.
        known = any(plain == option and type(plain) is type(option) for option in typing.get_args(kind))
        _expect(known, f"one of {typing.get_args(kind)}", plain, where)
        return plain
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, plain, where)
    if isinstance(kind, type) and issubclass(kind, StoredAs):
        stored = decode(kind.stored_kind, plain, where=where)
        return _made(lambda: kind.from_stored(stored), where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [member.value for member in kind]
        _expect(isinstance(plain, str) and plain in values, f"one of {values}", plain, where)
        return kind(plain)
    return _decode_scalar(kind, plain, where)


def _decode_union(kind: Any, plain: Any, where: str) -> Any:
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    if plain is None:
        _expect(type(None) in typing.get_args(kind), "a value", plain, where)
        return None
    if len(options) > 1:
        kinds = [_kind_of(option) for option in options]
        named = plain.get(_KIND) if isinstance(plain, dict) else None
        # Compared one by one, because the value may have any type.
        _expect(named in kinds, f"an object whose {_KIND} is one of {kinds}", plain, where)
        return decode(options[kinds.index(named)], plain, where=where)
    return decode(options[0], plain, where=where)


def _kind_of(kind: Any) -> str | None:
    return getattr(kind, "KIND", None)


def _decode_dataclass(kind: Any, plain: Any, where: str) -> Any:
    _expect(isinstance(plain, dict), "an object", plain, where)
    hints, name = _hints(kind), _kind_of(kind)
    if name is not None:
        _expect(plain.get(_KIND) == name, f"an object whose {_KIND} is {name}", plain, where)
        plain = {key: value for key, value in plain.items() if key != _KIND}
    unknown = sorted(set(plain) - set(hints))
    missing = sorted(set(hints) - set(plain))
    _expect(not unknown and not missing, f"the keys of {kind.__name__}", {"unknown": unknown, "missing": missing}, where)
    fields = {name: decode(hint, plain[name], where=f"{where}.{name}") for name, hint in hints.items()}
    return _made(lambda: kind(**fields), where)


def _made(make: Callable[[], T], where: str) -> T:
    try:
        return make()
    except PermanentError as error:
        # A value's own check does not know which object the value came from.
        raise Damaged(f"{where}: {error.reason}", next_step=_NOT_OURS, **(error.facts | {"where": where})) from None


def _decode_scalar(kind: Any, plain: Any, where: str) -> Any:
    # bool is an int in Python; JSON keeps them apart and so do we.
    whole = isinstance(plain, int) and not isinstance(plain, bool)
    if whole and kind in (int, float):
        _expect(plain in _INT64, "a number of at most 64 bits", plain, where)
        return kind(plain)
    if isinstance(plain, float) and kind is float:
        _expect(math.isfinite(plain), "a finite number", plain, where)
        return plain
    _expect(isinstance(plain, kind) and kind is not int, kind.__name__, plain, where)
    return _text(plain, where) if isinstance(plain, str) else plain


def _text(plain: str, where: str) -> str:
    """The text, if it can be encoded as UTF-8. JSON can contain unpaired surrogates, which UTF-8 cannot encode."""
    why = ""
    try:
        if not plain.isascii():
            plain.encode()
    except UnicodeEncodeError as error:
        why = f"text in UTF-8 ({error.reason} at {error.start})"
    _expect(not why, why, plain, where)
    return plain


@cache
def _hints(kind: type) -> dict[str, Any]:
    return {
        name: hint for name, hint in typing.get_type_hints(kind).items() if typing.get_origin(hint) is not ClassVar and hint is not ClassVar
    }


def _expect(holds: bool, wanted: str, found: object, where: str) -> None:
    if not holds:
        raise Damaged(
            f"{where}: expected {wanted}, found {_shown.repr(found)}",
            next_step=_NOT_OURS,
            where=where,
        )
