"""How long compacted changelogs keep the mark of a deleted key, against the time between two savepoints."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.words import DAY_SECONDS, advice, set_on_topic, span
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND = "delete-retention"


def delete_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Changelogs of which no savepoint can share files with the one before it, because deletions in between may be gone."""
    if facts.interval_seconds is None:
        return
    interval = facts.interval_seconds * 1000
    for topic in facts.of(TopicRole.CHANGELOG):
        kept = topic.number("delete.retention.ms")
        if not topic.compacted or not topic.archived or kept is None or kept > interval:
            continue
        yield advice(
            KIND,
            Severity.WARNING,
            f"{topic.name} keeps the marks of deleted keys for {span(kept)} (delete.retention.ms), and savepoints are up to {span(interval)} apart. So every "
            "savepoint copies the whole changelog, because a deletion could have been missed.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "delete.retention.ms", int(max(DAY_SECONDS * 1000, 2 * interval))),),
            delete_retention_seconds=kept / 1000,
            interval_seconds=facts.interval_seconds,
        )
