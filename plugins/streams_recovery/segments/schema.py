"""Records as Arrow: the schema of a segment, and a digest that two equal sequences of records share.

Kafka knows no difference between a record without headers and one with an empty list of them, and clients report either as they like.
Here both are null. Everything else is kept: null is not empty in a key, a value or a header's value, headers keep order and duplicates.
Header keys are text, as in Kafka's own clients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streams_recovery.core.errors import Damaged

Header = tuple[str, bytes | None]

CREATE_TIME: Final = 0

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE, nullable=False))

# timestamp: milliseconds since the epoch; timestamp_type: -1 no timestamp, 0 set by the producer, 1 by the broker on append.
SEGMENT_SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
    ]
)


def header_array(headers: Sequence[Sequence[Header] | None]) -> pa.Array:
    """One list of headers a record, as a column; an empty list becomes null."""
    if not any(headers):
        return pa.nulls(len(headers), HEADERS_TYPE)
    return pa.array([each or None for each in headers], HEADERS_TYPE)


def header_lists(column: pa.Array) -> list[list[Header] | None]:
    """The inverse of ``header_array``."""
    if column.null_count == len(column):
        return [None] * len(column)
    pairs = _pairs(column)
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0)).to_pylist()
    return [pairs[start:end] or None for start, end in zip([0, *ends], ends, strict=False)]


def _pairs(column: pa.Array) -> list[Header]:
    flat = column.flatten()
    return list(zip(flat.field("key").to_pylist(), flat.field("value").to_pylist(), strict=True))


def check_schema(found: pa.Schema, *, where: str) -> None:
    """Raises ``Damaged`` when ``found`` is not the schema of a segment. ``where`` names the file."""
    if not found.equals(SEGMENT_SCHEMA):
        raise Damaged(
            f"{where} does not have the columns of a segment",
            next_step="check that it was written by a supported version and was not edited",
            where=where,
            found=str(found),
        )


def payload_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of keys and values: what a producer has to send, headers and framing aside."""
    return sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value") if name in batch.schema.names)


def largest_record(batch: pa.RecordBatch) -> int:
    """Bytes of the key, the value and the headers of the row that has most of them, 0 without a row."""
    if not len(batch):
        return 0
    sizes = pc.add(*(pc.fill_null(pc.binary_length(batch.column(name)), 0) for name in ("key", "value")))
    headers = batch.column("headers")
    if headers.null_count == len(headers):
        return int(pc.max(sizes).as_py())
    several = pc.list_flatten(headers)
    parts = [pc.fill_null(pc.binary_length(pc.struct_field(several, name)), 0) for name in ("key", "value")]
    of_row = pa.table({"row": pc.list_parent_indices(headers), "bytes": pc.add(*parts)}).group_by("row").aggregate([("bytes", "sum")])
    rows, more = of_row.column("row"), of_row.column("bytes_sum")
    with_headers = pc.max(pc.add(pc.cast(sizes.take(rows.combine_chunks()), pa.int64()), more.combine_chunks())).as_py()
    return int(max(pc.max(sizes).as_py(), with_headers or 0))


def record_digest(timestamp: int | None, key: bytes | None, value: bytes | None, headers: Sequence[Header] | None) -> bytes:
    """SHA-256 of one record, wherever it stands. Two have the same one exactly when all of this is equal: null is not empty, and headers are in order."""
    return hashlib.sha256(repr((timestamp, key, value, list(headers) if headers else None)).encode()).digest()


class RowDigest:
    """SHA-256 over key, value, headers and timestamp of every row, in order. Offset and timestamp type do not count, because a restore changes them, unless
    ``placed`` says so.

    Kept column by column, so that no row costs Python time: each column feeds a hash of its lengths (64 bits, little endian, -1 for null)
    and one of its bytes. Lengths and bytes together give back every row, so two sequences have the same digest exactly when their rows are
    equal in order, however they were cut into batches.
    """

    def __init__(self, *, placed: bool = False) -> None:
        self.rows = 0
        self._also = ("offset", "timestamp_type") if placed else ()
        self._columns: dict[str, Any] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of one batch."""
        if not len(batch):
            return  # else a batch of nothing would differ from no batch
        self.rows += len(batch)
        for name in ("timestamp", *self._also):
            self._numbers(name, batch.column(name))
        self._binaries("key", batch.column("key"))
        self._binaries("value", batch.column("value"))
        headers = batch.column("headers")
        self._numbers("headers", pc.fill_null(pc.list_value_length(headers), 0))
        flat = headers.flatten()
        self._binaries("headers.key", flat.field("key").cast(pa.binary()))
        self._binaries("headers.value", flat.field("value"))

    def hexdigest(self) -> str:
        """The digest of all rows so far."""
        whole = hashlib.sha256(self.rows.to_bytes(8, "little"))
        for name in sorted(self._columns):
            whole.update(name.encode() + b"\0" + self._columns[name].digest())
        return whole.hexdigest()

    def _column(self, name: str) -> Any:
        return self._columns.setdefault(name, hashlib.sha256())

    def _numbers(self, name: str, column: pa.Array) -> None:
        self._column(name).update(column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype("<i8").tobytes())

    def _binaries(self, name: str, column: pa.Array) -> None:
        self._numbers(f"{name}.lengths", pc.fill_null(pc.binary_length(column), -1))
        # A null slot may cover bytes in principle; filled with nothing, and made one piece from its first offset on, it cannot.
        plain = pc.fill_null(column, b"")
        starts, data = plain.buffers()[1:]
        digest = self._column(name)
        if len(plain) and data is not None:
            first, last = (
                int.from_bytes(starts[4 * at : 4 * at + 4].to_pybytes(), "little") for at in (plain.offset, plain.offset + len(plain))
            )
            digest.update(data[first:last])
