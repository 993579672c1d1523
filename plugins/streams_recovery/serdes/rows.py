"""Entries of a changelog as rows of a table with named columns, and rows as what an entry is to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.state.cells import Cell, Format, canonical
from streams_recovery.core.state.table import Entry, Headers, Identity, StoreFormat, ends_of_versions
from streams_recovery.core.state.windowed_keys import StoreKey, join_key, split_key
from streams_recovery.serdes.codecs import codec_of

Row = dict[str, Any]

_WINDOW_COLUMNS: Final = {
    StoreKind.WINDOW: {"window_start": "start", "window_seq": "seq"},
    StoreKind.SESSION: {"window_start": "start", "window_end": "end"},
}
_TYPES: Final = {Format.LONG: pa.int64(), Format.INTEGER: pa.int32(), Format.DOUBLE: pa.float64(), Format.BYTES: pa.binary()}
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


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
        """What a row is about: its key and window. JSON documents that are the same have the same name however they are written."""
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
