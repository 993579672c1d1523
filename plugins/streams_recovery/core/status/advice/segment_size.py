"""How much of a changelog the log cleaner can reach: it never touches the segment that is written."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.words import advice, set_on_topic
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND = "segment-size"
_LARGE, _BETTER = 256 << 20, 64 << 20
# Below this a restore reads all of it in seconds, whatever was replaced.
_OFFSETS = 1_000_000


def segment_size(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Large changelogs whose newest segment may have hundreds of megabytes in each partition."""
    for topic in facts.of(TopicRole.CHANGELOG):
        size = topic.number("segment.bytes")
        if not topic.compacted or size is None or size < _LARGE or sum(topic.offsets) < _OFFSETS:
            continue
        yield advice(
            KIND,
            Severity.INFO,
            f"{topic.name} has segments of {size >> 20} MiB (segment.bytes), and the newest one of each of its {len(topic.offsets)} partitions is never "
            "compacted. A restore reads all that is in them.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "segment.bytes", _BETTER),),
            segment_bytes=size,
            offsets=sum(topic.offsets),
        )
