"""Whether changelogs and repartition topics can lose records by their own settings."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.status.advice.facts import AdviceFacts
from streams_recovery.core.status.advice.words import advice, set_on_topic, span
from streams_recovery.core.status.finding import Severity, StatusFinding

KIND, REPARTITION = "changelog-policy", "repartition-retention"


def changelog_policy(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Changelogs that keep records for a time and not by key. Kafka Streams makes them compacted."""
    for topic in facts.of(TopicRole.CHANGELOG):
        if not topic.settings or topic.compacted:
            continue
        yield advice(
            KIND,
            Severity.CRITICAL,
            f"{topic.name} is not compacted (cleanup.policy={topic.settings.get('cleanup.policy', '')}): state older than its retention is deleted, and an "
            "instance without local state cannot read it back.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "cleanup.policy", "compact"),),
        )


def repartition_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Repartition topics that delete by age. Kafka Streams deletes what it has read by itself, and sets no limit."""
    for topic in facts.of(TopicRole.REPARTITION):
        retention = topic.number("retention.ms")
        if not topic.expires or retention is None or retention < 0:
            continue
        yield advice(
            REPARTITION,
            Severity.CRITICAL,
            f"{topic.name} deletes records after {span(retention)} (retention.ms), whether the application has read them or not. Kafka Streams makes it "
            "with retention.ms=-1.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "retention.ms", -1),),
            retention_seconds=retention / 1000,
        )
