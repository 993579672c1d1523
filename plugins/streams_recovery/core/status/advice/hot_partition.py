"""One partition that is much larger than the others: whatever is done partition by partition waits for it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts, AdviceTopic
from streams_recovery.core.status.advice.words import advice
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND = "hot-partition"
_TIMES, _OFFSETS, _PARTITIONS = 5, 100_000, 3


def hot_partition(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Partitions with a multiple of the offsets that the middle one has."""
    for topic in facts.of(TopicRole.CHANGELOG, TopicRole.INPUT):
        found = _hottest(topic)
        if found is None:
            continue
        partition, most, middle = found
        yield advice(
            KIND,
            Severity.INFO,
            f"{topic.name}-{partition} has {most:,} offsets, and the middle one of its {len(topic.offsets)} partitions has {middle:,.0f}. One task, one "
            "thread and one instance handle a partition, so a restore takes as long as this one. A key that many records share, or keys that are "
            "not spread, is the usual reason: choose another key.",
            subject=topic.name,
            offsets=most,
            median_offsets=middle,
        )


def _hottest(topic: AdviceTopic) -> tuple[int, int, float] | None:
    if len(topic.offsets) < _PARTITIONS:
        return None
    most, middle = max(topic.offsets), statistics.median(topic.offsets)
    return (topic.offsets.index(most), most, middle) if most >= _OFFSETS and most >= _TIMES * max(middle, 1) else None
