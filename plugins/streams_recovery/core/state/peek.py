"""Which records somebody wants to see of a topic, and how they are shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams_recovery.core.errors import ConfigInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekRequest:
    """``count`` records of each partition, or of ``partition`` alone: the first ones from ``offset`` on, or the newest ones without it. ``savepoint`` is an id,
    ``latest``, or ``live``.
    """

    topic: str
    savepoint: str
    partition: int | None
    offset: int | None
    count: int

    def __post_init__(self) -> None:
        if self.offset is not None and self.partition is None:
            raise ConfigInvalid("an offset belongs to one partition", next_step="name it with --partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekRecord:
    """One record. Times in milliseconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def as_json(self) -> dict[str, Any]:
        """As plain JSON. Bytes that are no text are in a field of their own, in hex."""
        plain: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "timestamp": self.timestamp,
        }
        for name, data in (("key", self.key), ("value", self.value)):
            plain |= {name: as_text(data)} if data is None or as_text(data) is not None else {f"{name}_hex": data.hex()}
        return plain | {"headers": [{"key": name, "value": shown_bytes(data)} for name, data in self.headers]}


def first_offset(start: int, end: int, wanted: int | None, count: int) -> int:
    """Where to begin in a log with the offsets ``[start, end)``: at the offset that is ``wanted``, else so many before the end."""
    return min(max(start, end - count if wanted is None else wanted), end)


def shown_bytes(data: bytes | None) -> str | None:
    """Text as it is, other bytes in hex with ``0x`` before them, None for none."""
    if data is None:
        return None
    text = as_text(data)
    return f"0x{data.hex()}" if text is None else text


def as_text(data: bytes | None) -> str | None:
    """Bytes as text, None where they are none that can be shown."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None
