"""Sizes, lengths of time and lists of names as people read them. Every text uses these."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from streams_recovery.core.kafka_types import TopicPartition

_SIZES: Final = ("B", "kB", "MB", "GB", "TB", "PB")
# From here on a size has the next unit, or no decimal.
_THREE_DIGITS, _TWO_DIGITS = 999.5, 99.5
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
# From so many days on hours do not matter.
_MANY_DAYS: Final = 3


def size(count: float) -> str:
    """Bytes with the unit in which they are short, powers of 1000: ``38.2 GB``, ``512 B``."""
    value, unit = float(count), 0
    while abs(value) >= _THREE_DIGITS and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {_SIZES[unit]}" if unit == 0 or abs(value) >= _TWO_DIGITS else f"{value:.1f} {_SIZES[unit]}"


def span(seconds: float) -> str:
    """The two largest units that count: ``4 min``, ``3 h 12 min``, ``12 days``, ``0.4 s``."""
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    days, rest = divmod(round(seconds), _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    parts = [(days, "day" if days == 1 else "days"), (hours, "h"), (minutes, "min"), (left, "s")]
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    shown = parts[first : first + (1 if days >= _MANY_DAYS else 2)]
    return " ".join(f"{count} {unit}" for count, unit in shown if count) or "0 s"


def first_names(names: Collection[str] | Collection[TopicPartition], most: int = 5) -> str:
    """The first ``most`` in their order, and how many more there are."""
    shown = ", ".join(map(str, sorted(names)[:most]))
    more = len(names) - most
    return f"{shown} and {more} more" if more > 0 else shown
