"""Converts keys and values of stores between readable table cells and the bytes of the application's serialisers.

A *cell* is text, a number, bytes, or for JSON its text. Decoding refuses bytes that the format does not write, so that a wrong configuration is never
shown as a wrong number.
"""

from __future__ import annotations

import enum
import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from streams_recovery.core.bounded_json import document
from streams_recovery.core.errors import ConfigInvalid

Cell = str | int | float | bytes


class Format(enum.StrEnum):
    """The serialisation of a store's keys or values: like Kafka's own serialisers, JSON as UTF-8 text, Avro in its binary encoding."""

    STRING = "string"
    LONG = "long"
    INTEGER = "integer"
    DOUBLE = "double"
    BYTES = "bytes"
    JSON = "json"
    AVRO = "avro"

    @property
    def document(self) -> bool:
        """True if a cell is JSON text."""
        return self in (Format.JSON, Format.AVRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """A format and its options: ``schema`` is an Avro schema as JSON text. ``confluent``: five bytes precede the Avro data, a zero and the schema's
    id in a registry.
    """

    format: Format
    schema: str | None = None
    confluent: bool = False


PLAIN_BYTES: Final = ValueFormat(format=Format.BYTES)

_PACKED: Final = {Format.LONG: struct.Struct(">q"), Format.INTEGER: struct.Struct(">i"), Format.DOUBLE: struct.Struct(">d")}


def decoded(kind: Format, data: bytes) -> Cell:
    """The cell for some bytes; not for Avro. Raises ``ConfigInvalid`` for bytes that the format does not write."""
    try:
        if kind is Format.BYTES:
            return data
        if kind in _PACKED:
            number: int | float = _PACKED[kind].unpack(data)[0]
            return number
        text = data.decode()
        if kind is Format.JSON:
            document(text)
    except (struct.error, ValueError) as error:
        raise not_of(kind, data, str(error)) from None
    return text


def encoded(kind: Format, cell: Any) -> bytes:
    """The bytes of a cell; not for Avro. The inverse of ``decoded``. Raises ``ConfigInvalid`` for a cell that the format cannot encode."""
    try:
        if kind is Format.BYTES and isinstance(cell, bytes):
            return cell
        if kind is Format.DOUBLE and isinstance(cell, (int, float)) and not isinstance(cell, bool):
            return _PACKED[kind].pack(cell)
        if kind in (Format.LONG, Format.INTEGER) and isinstance(cell, int) and not isinstance(cell, bool):
            return _PACKED[kind].pack(cell)
        if kind in (Format.STRING, Format.JSON) and isinstance(cell, str):
            if kind is Format.JSON:
                document(cell)
            return cell.encode()
    except (struct.error, OverflowError, ValueError) as error:
        raise unfit(kind, cell, str(error)) from None
    raise unfit(kind, cell, f"it is of type {type(cell).__name__}")


def same_document(one: str, other: str) -> bool:
    """True for two JSON texts that differ at most in white space, escapes and the order of keys. 1 and 1.0 are different, and so are numbers that only a
    float would not tell apart: an edit of one must not be lost.
    """
    return canonical(one) == canonical(other) and document(one, fraction=Decimal) == document(other, fraction=Decimal)


def canonical(text: str) -> str:
    """A JSON text in canonical form: equal documents give equal texts."""
    return json.dumps(document(text), sort_keys=True)


def not_of(kind: Format, data: bytes, why: str) -> ConfigInvalid:
    """The error for bytes that do not have a format."""
    return ConfigInvalid(
        f"{len(data)} bytes {data[:40].hex()} are not {kind}: {why}"[:400],
        next_step="correct the store's key and value formats under `stores` in the configuration",
    )


def unfit(kind: Format, cell: Any, why: str) -> ConfigInvalid:
    """The error for a cell that a format cannot encode."""
    return ConfigInvalid(f"{cell!r:.100} cannot be written as {kind}: {why}"[:400], next_step="correct the table")


def from_text(kind: Format, text: str) -> Cell:
    """A cell from text that a person typed: a number in digits, bytes in hex, everything else unchanged. Raises ``ConfigInvalid``."""
    try:
        if kind in (Format.LONG, Format.INTEGER):
            return int(text)
        if kind is Format.DOUBLE:
            return float(text)
        if kind is Format.BYTES:
            return bytes.fromhex(text)
    except ValueError as error:
        raise unfit(kind, text, str(error)) from None
    return text
