"""How pieces of work of very different size are divided among tasks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

# The start of a task takes as long as some thousand records take.
WORTH_A_TASK: Final = 10_000
# One that turns out longer than the others leaves nobody idle for long.
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
    """Positions of ``records`` by task, the biggest task first. Who has ``worth`` records or more has a task of its own, so that it is done again alone
    when it fails; the others share as many tasks as they are worth. No fewer than ``least`` tasks where there is work for them.
    """
    alone = [[at] for at, count in enumerate(records) if count >= worth]
    small = [at for at, count in enumerate(records) if count < worth]
    bins = max(least - len(alone), -(-sum(records[at] for at in small) // worth), 1)
    shared = [[small[at] for at in group] for group in packed([records[at] for at in small], bins)] if small else []
    return sorted(alone + shared, key=lambda group: -sum(records[at] for at in group))
