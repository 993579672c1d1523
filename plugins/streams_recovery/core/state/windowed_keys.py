"""Keys of windowed stores as Kafka Streams writes them to their changelogs: the record's key, and behind it where the window is in time.

A window store appends the window's start (8 bytes) and a sequence number (4 bytes; 0 unless the store keeps duplicates), a session store the
session's end and its start (8 bytes each). All numbers are big endian and signed. A window's end is nowhere: only the application knows its size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind

_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")
_BEHIND = {StoreKind.WINDOW: _WINDOW.size, StoreKind.SESSION: _SESSION.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKey:
    """``key`` as the application serialised it. ``start`` is a window's or a session's, ``end`` a session's (ms), ``seq`` a window's number."""

    key: bytes
    start: int | None = None
    end: int | None = None
    seq: int | None = None


def split_key(kind: StoreKind, data: bytes) -> StoreKey:
    """The parts of a changelog's key. Raises ``ConfigInvalid`` for one that no store of this kind writes."""
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


def join_key(kind: StoreKind, parts: StoreKey) -> bytes:
    """The inverse of ``split_key``. Raises ``ConfigInvalid`` when a part that the kind needs is missing or does not fit into it."""
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
