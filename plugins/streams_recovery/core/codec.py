"""One way between frozen dataclasses and JSON, so that every stored object is read as strictly as it was written.

Unknown keys, missing keys and values of the wrong type are ``Damaged``: a manifest that cannot be understood whole must not be half used.
Mappings need string keys. Enums travel by value, tuples as lists. Not for secrets: everything encoded is meant to be read by people.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

from streams_recovery.core.errors import Damaged

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Plain JSON value for a dataclass, enum, tuple, mapping or scalar."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no white space, UTF-8. Equal values give equal bytes, so a hash of it identifies the value."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def loads(kind: type[T], data: bytes, *, where: str) -> T:
    """The ``kind`` that ``data`` describes. ``where`` names the object in errors. Raises ``Damaged``."""
    try:
        plain = json.loads(data)
    except ValueError as error:
        raise Damaged(
            f"{where} is not JSON: {error}", next_step="restore this object from a copy, or choose another savepoint", where=where
        ) from error
    return cast("T", decode(kind, plain, where=where))


def decode(kind: Any, plain: Any, *, where: str) -> Any:
    """``plain`` as a ``kind``. Raises ``Damaged`` with the path of the first value that does not fit."""
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
        return {key: decode(typing.get_args(kind)[1], item, where=f"{where}.{key}") for key, item in plain.items()}
    if origin is typing.Literal:
        _expect(plain in typing.get_args(kind), f"one of {typing.get_args(kind)}", plain, where)
        return plain
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, plain, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        _expect(plain in {member.value for member in kind}, f"one of {[member.value for member in kind]}", plain, where)
        return kind(plain)
    return _decode_scalar(kind, plain, where)


def _decode_union(kind: Any, plain: Any, where: str) -> Any:
    options = [option for option in typing.get_args(kind) if option is not type(None)]
    if plain is None:
        _expect(type(None) in typing.get_args(kind), "a value", plain, where)
        return None
    _expect(len(options) == 1, "a type with one non-null option", kind, where)
    return decode(options[0], plain, where=where)


def _decode_dataclass(kind: Any, plain: Any, where: str) -> Any:
    _expect(isinstance(plain, dict), "an object", plain, where)
    hints = _hints(kind)
    unknown = sorted(set(plain) - set(hints))
    missing = sorted(set(hints) - set(plain))
    _expect(not unknown and not missing, f"the keys of {kind.__name__}", {"unknown": unknown, "missing": missing}, where)
    return kind(**{name: decode(hint, plain[name], where=f"{where}.{name}") for name, hint in hints.items()})


def _decode_scalar(kind: Any, plain: Any, where: str) -> Any:
    # bool is an int in Python; JSON keeps them apart and so do we.
    fits = isinstance(plain, kind) and not (kind is int and isinstance(plain, bool))
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    _expect(fits, kind.__name__, plain, where)
    return plain


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _expect(holds: bool, wanted: str, found: object, where: str) -> None:
    if not holds:
        raise Damaged(
            f"{where}: expected {wanted}, found {found!r:.200}",
            next_step="check that this object was written by a supported version and was not edited",
            where=where,
        )
