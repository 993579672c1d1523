"""Groups small ranges of logs, so that one consumer reads several of them at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from streams_recovery.core.kafka_types import TopicPartition

# Larger ranges are read separately.
SMALL_OFFSETS: Final = 1_024
MOST_RANGES: Final = 500
MOST_OFFSETS: Final = 20_000


class OffsetRange(NamedTuple):
    """Offsets ``[start, end)`` of one log."""

    tp: TopicPartition
    start: int
    end: int


def read_groups(
    ranges: Iterable[OffsetRange], *, small: int = SMALL_OFFSETS, most_ranges: int = MOST_RANGES, most_offsets: int = MOST_OFFSETS
) -> list[list[OffsetRange]]:
    """The small ranges of ``ranges``, in order, in groups that are read at once. A group has at most one range of each log, at most ``most_ranges``
    ranges, and (unless it is a single range) at most ``most_offsets`` offsets. Empty ranges, and ranges with more than ``small`` offsets, are left
    out.
    """
    groups: list[list[OffsetRange]] = []
    logs: set[TopicPartition] = set()
    offsets = 0
    for each in ranges:
        size = each.end - each.start
        if not 0 < size <= small:
            continue
        if not groups or each.tp in logs or len(groups[-1]) == most_ranges or offsets + size > most_offsets:
            groups.append([])
            logs, offsets = set(), 0
        groups[-1].append(each)
        logs.add(each.tp)
        offsets += size
    return groups
