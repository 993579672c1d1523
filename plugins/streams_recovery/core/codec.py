"""Converts frozen dataclasses to JSON and back. Reading is as strict as writing.

Unknown keys, missing keys and values of the wrong type raise ``Damaged``, so that a manifest is never used in part. So does everything that this
software never writes: numbers of more than 64 bits, text that is not UTF-8, and JSON that is too expensive to parse (``bounded_json``). Keys of mappings
are strings, or are stored as strings. Enums are stored by value, tuples as lists. A dataclass that is a member of a union has a ``KIND``, which is stored
with it. Do not use this for secrets: everything encoded can be read by people.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from streams_recovery.core import bounded_json
from streams_recovery.core.bounded_json import MOST_BYTES, Unusable
from streams_recovery.core.codec_readers import KIND, StoredAs, kind_of, reader
from streams_recovery.core.errors import Damaged

__all__ = ["StoredAs", "decode", "dumps", "encode", "fields_of", "loads"]

T = TypeVar("T")


def encode(value: Any) -> Any:
    """A dataclass, enum, tuple, mapping or scalar as a plain JSON value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return fields if (name := kind_of(type(value))) is None else {KIND: name, **fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, StoredAs):
        return encode(value.to_stored())
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key if type(key) is str else str(encode(key)): encode(item) for key, item in value.items()}
    return value


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
    return reader(kind)(plain, where)
