"""Keys and values of stores as people read them, and back to the bytes that the application's serialisers write.

A *cell* is what a table holds: text, a number, bytes, and for JSON the text itself. Decoding refuses what the format does not write, so that a
wrong configuration never shows as a wrong number.
"""

from __future__ import annotations

import enum
import json
import struct
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.bounded_json import document
from streams_recovery.core.errors import ConfigInvalid

Cell = str | int | float | bytes


class Format(enum.StrEnum):
    """How a store's keys or values are serialised: as Kafka's own serialisers do, JSON as UTF-8 text, Avro as its binary encoding."""

    STRING = "string"
    LONG = "long"
    INTEGER = "integer"
    DOUBLE = "double"
    BYTES = "bytes"
    JSON = "json"
    AVRO = "avro"

    @property
    def document(self) -> bool:
        """True when a cell is JSON text."""
        return self in (Format.JSON, Format.AVRO)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """A format with what it needs: ``schema`` is an Avro schema as JSON text. ``confluent`` means that five bytes, a zero and the schema's id in a
    registry, stand before the Avro data.
    """

    format: Format
    schema: str | None = None
    confluent: bool = False


PLAIN_BYTES: Final = ValueFormat(format=Format.BYTES)

_PACKED: Final = {Format.LONG: struct.Struct(">q"), Format.INTEGER: struct.Struct(">i"), Format.DOUBLE: struct.Struct(">d")}


def decoded(kind: Format, data: bytes) -> Cell:
    """The cell of some bytes; not for Avro. Raises ``ConfigInvalid`` for bytes that the format does not write."""
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
    """The bytes of a cell; not for Avro. The inverse of ``decoded``. Raises ``ConfigInvalid`` for a cell that the format has no bytes for."""
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
    """True for two JSON texts that differ at most in white space, escapes and the order of keys. 1 and 1.0 are not the same."""
    return canonical(one) == canonical(other)


def canonical(text: str) -> str:
    """A JSON text in the one way in which equal documents are equal texts."""
    return json.dumps(document(text), sort_keys=True)


def not_of(kind: Format, data: bytes, why: str) -> ConfigInvalid:
    """The error for bytes that are not of a format."""
    return ConfigInvalid(
        f"{len(data)} bytes {data[:40].hex()} are not {kind}: {why}"[:400],
        next_step="correct the store's key and value formats under `stores` in the configuration",
    )


def unfit(kind: Format, cell: Any, why: str) -> ConfigInvalid:
    """The error for a cell that a format cannot hold."""
    return ConfigInvalid(f"{cell!r:.100} cannot be written as {kind}: {why}"[:400], next_step="correct the table")


def from_text(kind: Format, text: str) -> Cell:
    """A cell from what somebody typed: a number in digits, bytes in hex, everything else as it is. Raises ``ConfigInvalid``."""
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
