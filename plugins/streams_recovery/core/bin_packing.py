"""Divides work items of very different sizes among tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

# Starting a task takes as long as loading several thousand records.
WORTH_A_TASK: Final = 10_000
# Several tasks for each slot, so that one long task does not leave the other slots idle.
TASKS_A_SLOT: Final = 2


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
