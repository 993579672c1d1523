"""How long inputs keep their records, against the time between two savepoints, and inputs of which nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts, AdviceTopic
from streams_recovery.core.status.advice.words import DAY_SECONDS, advice, set_on_topic, span
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND = "input-retention"
# Two savepoints in a row may fail, and a person needs a day to see to it.
_INTERVALS = 3
_WEEK_MS = 7 * DAY_SECONDS * 1000


def input_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Input that may be deleted before a savepoint, or a restore of the newest one, has read it."""
    yield from _by_time(facts)
    yield from _by_size(facts)


def _by_size(facts: AdviceFacts) -> Iterator[StatusFinding]:
    for topic in facts.of(TopicRole.INPUT):
        most = topic.number("retention.bytes")
        if not topic.expires or most is None or most < 0:
            continue
        yield advice(
            KIND,
            Severity.INFO,
            f"{topic.name} keeps {most:,} bytes of each partition (retention.bytes), so how long it keeps a record depends on how much comes. "
            "No alert can foresee when input is deleted that is still needed.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "retention.bytes", -1),),
            retention_bytes=most,
        )


def _by_time(facts: AdviceFacts) -> Iterator[StatusFinding]:
    if facts.interval_seconds is None:
        return
    interval = facts.interval_seconds * 1000
    for topic in facts.of(TopicRole.INPUT):
        retention = topic.number("retention.ms")
        if not topic.expires or retention is None or not 0 <= retention < _INTERVALS * interval:
            continue
        yield advice(
            KIND,
            Severity.CRITICAL if retention < interval else Severity.WARNING,
            f"{topic.name} keeps records for {span(retention)} (retention.ms), and savepoints are up to {span(interval)} apart. {_what_is_lost(topic)}",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "retention.ms", int(max(_WEEK_MS, _INTERVALS * interval))),),
            retention_seconds=retention / 1000,
            interval_seconds=facts.interval_seconds,
        )


def _what_is_lost(topic: AdviceTopic) -> str:
    if topic.archived:
        return "A savepoint that fails or comes late finds records deleted, and has a gap there."
    return "A restore goes on where its savepoint was taken, and does not find the input since then."
