"""Which ranges of logs are read at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from streams_recovery.core.kafka_types import TopicPartition

# A range of more offsets is worth a read of its own.
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
    """The small ones of ``ranges``, in their order, in groups that are read at once. No group has two ranges of one log, more than ``most_ranges``
    ranges or, where it has more than one, more than ``most_offsets`` offsets. Empty ranges and those of more than ``small`` offsets are in none.
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
