"""One codec for each format: bytes to a cell, and a cell to bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streams_recovery.core.state import cells
from streams_recovery.core.state.cells import Cell, Format, ValueFormat


class Codec(Protocol):
    """Decodes and encodes one format. Both raise ``ConfigInvalid`` for what does not fit it."""

    def decode(self, data: bytes) -> Cell:
        """The cell of some bytes."""

    def encode(self, cell: Cell, like: bytes | None) -> bytes:
        """The bytes of a cell. ``like`` are bytes of the same store, for what is not in the cell: the id of a schema."""

    def same(self, cell: Cell, data: bytes) -> bool:
        """True when the cell says what the bytes say, so that they may stay as they are."""


@dataclass(frozen=True, slots=True)
class PlainCodec:
    """A format of Kafka's own serialisers, or JSON."""

    format: Format

    def decode(self, data: bytes) -> Cell:
        return cells.decoded(self.format, data)

    def encode(self, cell: Cell, like: bytes | None) -> bytes:  # noqa: ARG002  # these formats have everything in the cell
        return cells.encoded(self.format, cell)

    def same(self, cell: Cell, data: bytes) -> bool:
        """See Codec. JSON is compared as a document: an application's own way to write it stays."""
        encoded = cells.encoded(self.format, cell)
        return encoded == data or (self.format is Format.JSON and cells.same_document(encoded.decode(), data.decode()))


def codec_of(wanted: ValueFormat) -> Codec:
    """The codec of a format. Raises ``ConfigInvalid`` for an Avro schema that cannot be used."""
    if wanted.format is not Format.AVRO:
        return PlainCodec(wanted.format)
    # Only who has Avro data needs the library.
    from streams_recovery.serdes.avro import AvroCodec  # noqa: PLC0415

    return AvroCodec(wanted.schema or "", confluent=wanted.confluent)
