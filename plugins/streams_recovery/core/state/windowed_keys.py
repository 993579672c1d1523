"""Keys in the changelogs of windowed stores: the record's key, followed by the window's time.

A window store appends the window's start (8 bytes) and a sequence number (4 bytes; 0 unless the store keeps duplicates). A session store appends the
session's end and its start (8 bytes each). All numbers are big endian and signed. The end of a window is not stored: only the application knows the
window's size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import StoreKind

_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")
_BEHIND = {StoreKind.WINDOW: _WINDOW.size, StoreKind.SESSION: _SESSION.size}
# Milliseconds until the year 2248. Other bytes that are read as a time are nearly always more than that, or negative.
_TIMES = range(1 << 43)


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
    """When the window or session of a changelog key begins (ms). Of another ``kind`` than these two, or none, the key itself tells which one it is: read
    as the other kind, it has times that cannot be. None for a key that is neither, or could be both.
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
