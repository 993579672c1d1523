"""Entries of a changelog as rows of a table with named columns, and rows as entries again.

A codec of a format makes a cell of bytes, and bytes of a cell. A cell of Avro is in Avro's own JSON encoding: a standard text that says which branch
of a union was meant.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state import table as cells
from streams_recovery.core.state.table import (
    Cell,
    Entry,
    Format,
    Headers,
    Identity,
    StoreFormat,
    StoreKey,
    ValueFormat,
    canonical,
    ends_of_versions,
    join_key,
    not_of,
    same_document,
    split_key,
    unfit,
)

Row = dict[str, Any]

_WINDOW_COLUMNS: Final = {
    StoreKind.WINDOW: {"window_start": "start", "window_seq": "seq"},
    StoreKind.SESSION: {"window_start": "start", "window_end": "end"},
}
_TYPES: Final = {Format.LONG: pa.int64(), Format.INTEGER: pa.int32(), Format.DOUBLE: pa.float64(), Format.BYTES: pa.binary()}
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

_MAGIC: Final = b"\0"
_PREFIX: Final = 5


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
        """JSON is compared as a document: an application's own way to write it stays."""
        encoded = cells.encoded(self.format, cell)
        return encoded == data or (self.format is Format.JSON and cells.same_document(encoded.decode(), data.decode()))


class AvroCodec:
    """One schema, read and written as it is: no schema evolution. With ``confluent`` each value has the id of its schema before it, and it stays."""

    def __init__(self, schema: str, *, confluent: bool) -> None:
        """Raises ``ConfigInvalid`` for text that is no Avro schema."""
        import fastavro  # noqa: PLC0415  # only who has Avro data needs the library

        self._avro = fastavro
        self._confluent = confluent
        try:
            self._schema = fastavro.parse_schema(_bare(json.loads(schema)))
        except Exception as error:  # noqa: BLE001  # what the library raises has no common root
            raise ConfigInvalid(
                f"this is no Avro schema: {type(error).__name__} {error}"[:300], next_step="correct the schema file that the store names"
            ) from None

    def decode(self, data: bytes) -> Cell:
        """The cell of some bytes. The whole of the bytes has to be used up."""
        body = self._body(data)
        try:
            source = io.BytesIO(body)
            datum: Any = self._avro.schemaless_reader(source, self._schema, None, return_named_type=True)
            left = len(body) - source.tell()
            target = io.StringIO()
            self._avro.json_writer(target, self._schema, [datum])
            document(target.getvalue())
        except Exception as error:  # noqa: BLE001  # as above; for an empty key in a map it is no more than this
            raise not_of(Format.AVRO, data, f"{type(error).__name__} {error}") from None
        if left:
            raise not_of(Format.AVRO, data, f"{left} bytes are left over")
        return target.getvalue().strip()

    def encode(self, cell: Cell, like: bytes | None) -> bytes:
        """The bytes of a cell. They are read back and compared: a value that would come out as another one is refused."""
        if not isinstance(cell, str):
            raise unfit(Format.AVRO, cell, "it is no JSON text")
        if self._confluent and like is None:
            raise unfit(Format.AVRO, cell, "no value of the store shows the id of the schema")
        try:
            (datum,) = self._avro.json_reader(io.StringIO(json.dumps(document(cell))), self._schema)
            target = io.BytesIO()
            self._avro.schemaless_writer(target, self._schema, datum)
        except Exception as error:  # noqa: BLE001  # as above; for an empty key in a map it is no more than this
            raise unfit(Format.AVRO, cell, f"{type(error).__name__} {error}") from None
        data = (like[:_PREFIX] if self._confluent and like else b"") + target.getvalue()
        # Of a union's branches the library takes the first that fits, whatever the text says.
        written = str(self.decode(data))
        if document(written) != document(cell) and not same_document(written, cell):
            raise unfit(
                Format.AVRO, cell, f"it would be read back as {written}; name every field, and see which branch of a union is meant"
            )
        return data

    def same(self, cell: Cell, data: bytes) -> bool:
        before = self.decode(data)
        return isinstance(cell, str) and isinstance(before, str) and same_document(cell, before)

    def _body(self, data: bytes) -> bytes:
        if not self._confluent:
            return data
        if len(data) < _PREFIX or data[:1] != _MAGIC:
            raise not_of(Format.AVRO, data, "they do not begin with a zero and the id of a schema")
        return data[_PREFIX:]


def _bare(schema: Any) -> Any:
    """A schema without logical types: dates and decimals are the numbers and bytes that they are, whatever their range."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: value if key == "default" else _bare(value) for key, value in schema.items() if key != "logicalType"}
    return schema


def codec_of(wanted: ValueFormat) -> Codec:
    """The codec of a format. Raises ``ConfigInvalid`` for an Avro schema that cannot be used."""
    if wanted.format is not Format.AVRO:
        return PlainCodec(wanted.format)
    return AvroCodec(wanted.schema or "", confluent=wanted.confluent)


def schema_of(form: StoreFormat) -> pa.Schema:
    """The columns of a store's table. JSON and Avro are text in it."""
    times = ("valid_from", "valid_to") if form.kind is StoreKind.VERSIONED else (*_WINDOW_COLUMNS.get(form.kind, {}),)
    columns = {
        "key": _TYPES.get(form.key.format, pa.string()),
        **{name: pa.int32() if name == "window_seq" else pa.int64() for name in times},
        "value": _TYPES.get(form.value.format, pa.string()),
        **({} if form.kind is StoreKind.VERSIONED else {"timestamp": pa.int64()}),
        "headers": _HEADERS,
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


class RowCodec:
    """Entries to rows and back, by the format of one store."""

    def __init__(self, form: StoreFormat) -> None:
        """Raises ``ConfigInvalid`` for an Avro schema that cannot be used."""
        self._form = form
        self._key, self._value = codec_of(form.key), codec_of(form.value)
        self._windows = _WINDOW_COLUMNS.get(form.kind, {})

    def key(self, entry: Entry) -> Cell:
        """The application's key of an entry."""
        return self._key.decode(split_key(self._form.kind, entry.key).key)

    def rows(self, table: Mapping[Identity, Entry], *, deleted: bool) -> Iterator[Row]:
        """Rows in the order of partitions and keys. Deleted ones, with a value of null, are among them only if asked for. ``table`` has to hold
        tombstones as well: they end versions.
        """
        ends = ends_of_versions(table) if self._form.kind is StoreKind.VERSIONED else {}
        for at in sorted(table):
            if deleted or table[at].value is not None:
                yield self.row(table[at], ends.get(at))

    def row(self, entry: Entry, valid_to: int | None = None) -> Row:
        """One entry as a row."""
        parts = split_key(self._form.kind, entry.key)
        versioned = self._form.kind is StoreKind.VERSIONED
        return {
            "key": self._key.decode(parts.key),
            **{name: getattr(parts, part) for name, part in self._windows.items()},
            **({"valid_from": entry.timestamp, "valid_to": valid_to} if versioned else {}),
            "value": None if entry.value is None else self._value.decode(entry.value),
            **({} if versioned else {"timestamp": entry.timestamp}),
            "headers": None if not entry.headers else [{"key": key, "value": value} for key, value in entry.headers],
            "partition": entry.partition,
            "offset": entry.offset,
        }

    def name(self, row: Row) -> tuple[Any, ...]:
        """The key and window of a row, as one value. JSON documents that are the same have the same name however they are written."""
        missing = [name for name in ("key", *self._windows) if row.get(name) is None]
        if missing:
            raise ConfigInvalid(
                f"a row of the table has no {missing[0]}: {str(row)[:200]}", next_step="give every row its key and its window"
            )
        key = canonical(row["key"]) if self._form.key.format.document else row["key"]
        return (key, *(row[name] for name in self._windows))

    def key_bytes(self, row: Row, like: bytes | None) -> bytes:
        """The changelog's key of a row that is new. ``like`` is another key of the store."""
        window = {part: row[name] for name, part in self._windows.items()}
        known = None if like is None else split_key(self._form.kind, like).key
        return join_key(self._form.kind, StoreKey(key=self._key.encode(row["key"], known), **window))

    def value_bytes(self, row: Row, entry: Entry | None, like: bytes | None) -> bytes:
        """The value of a row: that of ``entry`` where the row says the same. ``like`` is another value of the store."""
        if entry is not None and entry.value is not None:
            return entry.value if self._value.same(row["value"], entry.value) else self._value.encode(row["value"], entry.value)
        return self._value.encode(row["value"], like)


def headers_of(row: Row, entry: Entry | None) -> Headers | None:
    """A row's headers; those of ``entry`` when the table has no such column."""
    if "headers" not in row:
        return None if entry is None else entry.headers
    return tuple((header["key"], header["value"]) for header in row["headers"] or ()) or None


def entries_of(batch: pa.RecordBatch, partition: int) -> Iterator[Entry]:
    """The rows of a segment that have a key: Kafka Streams skips those without one."""
    columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value", "headers")]
    for offset, timestamp, key, value, headers in zip(*columns, strict=True):
        if key is not None:
            pairs = tuple((header["key"], header["value"]) for header in headers or ()) or None
            yield Entry(partition=partition, offset=offset, timestamp=timestamp, key=key, value=value, headers=pairs)
