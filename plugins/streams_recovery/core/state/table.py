"""A changelog as a table: the newest row of each key, and the differences between two tables.

Keys and values are shown as *cells*: text, a number, bytes, or for JSON its text. Decoding refuses bytes that the format does not write, so that a wrong
configuration is never shown as a wrong number.

In the changelog of a windowed store the record's key is followed by the window's time. A window store appends the window's start (8 bytes) and a sequence
number (4 bytes; 0 unless the store keeps duplicates). A session store appends the session's end and its start (8 bytes each). All numbers are big endian and
signed. The end of a window is not stored: only the application knows the window's size.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from streams_recovery.core.codec import document
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import StoreKind

Cell = str | int | float | bytes
Headers = tuple[tuple[str, bytes | None], ...]
# Partition, key, and for a versioned store the start of the version's validity.
Identity = tuple[int, bytes, int]

# Stores whose changelogs contain the application's own keys and values. For other kinds only bytes can be shown.
READABLE: Final = frozenset({StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.SESSION, StoreKind.VERSIONED})
_WINDOW: Final = struct.Struct(">qi")
_SESSION: Final = struct.Struct(">qq")
_BEHIND: Final = {StoreKind.WINDOW: _WINDOW.size, StoreKind.SESSION: _SESSION.size}
# Milliseconds until the year 2248. Other bytes that are read as a time are nearly always more than that, or negative.
_TIMES: Final = range(1 << 43)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFormat:
    """Form of a store's changelog: the kind decides about the bytes after the key, the formats about the key itself and the value."""

    kind: StoreKind
    key: ValueFormat
    value: ValueFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAt:
    """A record of a topic. ``timestamp`` in milliseconds since the epoch."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(RecordAt):
    """One row of a changelog with a key. ``value`` is None for a tombstone. ``timestamp`` is part of the state of a timestamped store; in a versioned store it
    is the start of the version. ``headers`` are part of the state of headers-aware stores.
    """

    key: bytes
    headers: Headers | None


def identity(kind: StoreKind, entry: Entry) -> Identity:
    """The key of an entry that is unique in a store of this kind: partition and key, and in a versioned store also the version's start."""
    return entry.partition, entry.key, entry.timestamp if kind is StoreKind.VERSIONED else 0


def newest(kind: StoreKind, entries: Iterable[Entry]) -> dict[Identity, Entry]:
    """The newest entry of each identity, including tombstones. ``entries`` may come in any order. Memory use is that of the result."""
    found: dict[Identity, Entry] = {}
    for entry in entries:
        known = found.get(at := identity(kind, entry))
        if known is None or known.offset < entry.offset:
            found[at] = entry
    return found


def undeleted(table: Mapping[Identity, Entry]) -> dict[Identity, Entry]:
    """The entries that are not tombstones."""
    return {at: entry for at, entry in table.items() if entry.value is not None}


def ends_of_versions(table: Mapping[Identity, Entry]) -> dict[Identity, int | None]:
    """The end of each version of a versioned store: the start of the next version or deletion of its key, None for the newest."""
    later = dict(pairwise(sorted(table)))
    return {at: after[2] if (after := later.get(at)) is not None and after[:2] == at[:2] else None for at in table}


class Change(enum.StrEnum):
    """The kind of difference between two tables for a key."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key that differs between the two sides. ``parts`` of a changed key: value, timestamp, headers."""

    change: Change
    before: Entry | None
    after: Entry | None
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffCounts:
    """The numbers of a comparison, without deleted keys. ``compared`` counts the keys of either side."""

    before: int
    after: int
    compared: int
    added: int
    removed: int
    changed: int

    @property
    def equal(self) -> bool:
        """True if keys were compared and none differs."""
        return self.compared > 0 and not (self.added or self.removed or self.changed)

    def __add__(self, other: DiffCounts) -> DiffCounts:
        """The sum of two comparisons of different keys."""
        return DiffCounts(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(DiffCounts)})


def differences(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry]) -> Iterator[Difference]:
    """Every key that differs between the two sides, deleted keys excluded, in the order of partitions and keys. Offsets are not compared."""
    old, new = undeleted(before), undeleted(after)
    for at in sorted({*old, *new}):
        one, other = old.get(at), new.get(at)
        if one is None or other is None:
            yield Difference(change=Change.ADDED if one is None else Change.REMOVED, before=one, after=other, parts=())
        elif parts := different_parts(one, other):
            yield Difference(change=Change.CHANGED, before=one, after=other, parts=parts)


def different_parts(one: Entry, other: Entry) -> tuple[str, ...]:
    """The parts in which two entries of a key differ. No headers and an empty list of headers are the same."""
    checks = {
        "value": one.value == other.value,
        "timestamp": one.timestamp == other.timestamp,
        "headers": (one.headers or None) == (other.headers or None),
    }
    return tuple(name for name, same in checks.items() if not same)


def counted(before: Mapping[Identity, Entry], after: Mapping[Identity, Entry], found: Iterable[Difference]) -> DiffCounts:
    """The numbers of the comparison that gave ``found``."""
    old, new = undeleted(before), undeleted(after)
    kinds = [difference.change for difference in found]
    return DiffCounts(
        before=len(old),
        after=len(new),
        compared=len({*old, *new}),
        added=kinds.count(Change.ADDED),
        removed=kinds.count(Change.REMOVED),
        changed=kinds.count(Change.CHANGED),
    )


def check_known(store: str, kind: StoreKind) -> None:
    """Raise ``Refused`` for a store of unknown kind, because the meaning of its rows depends on the kind."""
    if kind is StoreKind.UNKNOWN:
        raise Refused(
            f"the kind of store {store} is not known, so its changelog cannot be shown as a table",
            next_step=f"declare `kind` for {store} under `stores` in the configuration",
            store=store,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKey:
    """``key`` is the application's serialised key. ``start`` is that of a window or session, ``end`` that of a session (ms), ``seq`` is a window's
    sequence number.
    """

    key: bytes
    start: int | None = None
    end: int | None = None
    seq: int | None = None


def split_key(kind: StoreKind, data: bytes) -> StoreKey:
    """Split a changelog key. Raises ``ConfigInvalid`` for a key that no store of this kind writes."""
    at = len(data) - _BEHIND.get(kind, 0)
    if at < 0:
        raise ConfigInvalid(
            f"a key of {len(data)} bytes is too short for a {kind} store: {data.hex()}",
            next_step="correct the store's kind under `stores` in the configuration",
        )
    if kind is StoreKind.WINDOW:
        start, seq = _WINDOW.unpack_from(data, at)
        return StoreKey(key=data[:at], start=start, seq=seq)
    if kind is StoreKind.SESSION:
        end, start = _SESSION.unpack_from(data, at)
        return StoreKey(key=data[:at], start=start, end=end)
    return StoreKey(key=data)


def window_begin(kind: StoreKind | None, data: bytes) -> int | None:
    """The begin of the window or session of a changelog key (ms). For any other ``kind``, or none, the key itself tells which of the two it is: read as the
    wrong one it has impossible times. None for a key that is neither, or could be both.
    """
    found = [begin for one in ((kind,) if kind in _BEHIND else _BEHIND) if (begin := _begin(one, data)) is not None]
    return found[0] if len(found) == 1 else None


def _begin(kind: StoreKind, data: bytes) -> int | None:
    if len(data) < _BEHIND[kind]:
        return None
    parts = split_key(kind, data)
    begin, end, seq = parts.start or 0, parts.end, parts.seq or 0
    possible = begin in _TIMES and seq >= 0 and (end is None or (end in _TIMES and begin <= end))
    return begin if possible else None


def join_key(kind: StoreKind, parts: StoreKey) -> bytes:
    """The inverse of ``split_key``. Raises ``ConfigInvalid`` if a part that the kind needs is missing or too large."""
    try:
        if kind is StoreKind.WINDOW:
            return parts.key + _WINDOW.pack(parts.start, parts.seq)
        if kind is StoreKind.SESSION:
            return parts.key + _SESSION.pack(parts.end, parts.start)
    except struct.error:
        raise ConfigInvalid(
            f"a key of a {kind} store needs whole numbers for its window, and has start {parts.start}, end {parts.end}, seq {parts.seq}",
            next_step="give every row of the table its window",
        ) from None
    return parts.key
