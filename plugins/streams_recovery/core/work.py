"""Dividing work: items of very different sizes among tasks, and small ranges of logs into groups that one consumer reads at once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streams_recovery.core.kafka_types import TopicPartition

# Starting a task takes as long as loading several thousand records.
WORTH_A_TASK: Final = 10_000
# Several tasks for each slot, so that one long task does not leave the other slots idle.
TASKS_A_SLOT: Final = 2
# Larger ranges are read separately.
SMALL_OFFSETS: Final = 1_024
MOST_RANGES: Final = 500
MOST_OFFSETS: Final = 20_000


def packed(sizes: Sequence[int], bins: int) -> list[list[int]]:
    """Positions of ``sizes`` in at most ``bins`` groups of about the same sum, biggest first in each. Every position is in exactly one group."""
    groups: list[list[int]] = [[] for _ in range(max(1, min(bins, len(sizes))))]
    lightest_first = [(0, 0, group) for group in range(len(groups))]
    for at in sorted(range(len(sizes)), key=lambda position: (-sizes[position], position)):
        size, count, group = lightest_first[0]
        groups[group].append(at)
        heapq.heapreplace(lightest_first, (size + sizes[at], count + 1, group))
    return [group for group in groups if group]


def bundled(records: Sequence[int], least: int, *, worth: int = WORTH_A_TASK) -> list[list[int]]:
    """Positions of ``records`` by task, the biggest task first. An item with ``worth`` or more records gets a task of its own, so that a retry
    repeats only that item. The other items share tasks of about ``worth`` records. There are at least ``least`` tasks if there is enough work.
    """
    alone = [[at] for at, count in enumerate(records) if count >= worth]
    small = [at for at, count in enumerate(records) if count < worth]
    bins = max(least - len(alone), -(-sum(records[at] for at in small) // worth), 1)
    shared = [[small[at] for at in group] for group in packed([records[at] for at in small], bins)] if small else []
    return sorted(alone + shared, key=lambda group: -sum(records[at] for at in group))


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
