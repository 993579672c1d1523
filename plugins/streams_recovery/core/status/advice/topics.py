"""Advice about the settings of topics: what deletes or compacts their records, their partitions, and their replicas."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.remedies import topics as remedies
from streams_recovery.core.remedies.topics import IN_SYNC, LAG, REPLICAS, UNCLEAN
from streams_recovery.core.status.advice.facts import DAY_SECONDS, AdviceFacts, AdviceTopic, advice, span
from streams_recovery.core.status.report import Severity, StatusFinding

_DAY_MS: Final = DAY_SECONDS * 1000
# Two savepoints in a row may fail, and a person needs a day to see to it.
_INTERVALS: Final = 3
_HOT_TIMES, _HOT_OFFSETS, _HOT_PARTITIONS = 5, 100_000, 3
# Bytes of a segment. The log cleaner never touches the one that is written.
_LARGE_SEGMENT, _BETTER_SEGMENT = 256 << 20, 64 << 20
# Below this a restore reads all of it in seconds, whatever was replaced.
_COMPACTED_OFFSETS: Final = 1_000_000


def changelog_policy(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Changelogs that keep records for a time and not by key. Kafka Streams makes them compacted."""
    for topic in facts.of(TopicRole.CHANGELOG):
        if not topic.settings or topic.compacted:
            continue
        yield advice(
            "changelog-policy",
            Severity.CRITICAL,
            f"{topic.name} is not compacted (cleanup.policy={topic.settings.get('cleanup.policy', '')}): state older than its retention is deleted, and an "
            "instance without local state cannot read it back.",
            subject=topic.name,
            remedy=remedies.set_policy(facts.tools, topic.at_hand),
        )


def repartition_retention(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Repartition topics that delete by age. Kafka Streams deletes what it has read by itself, and sets no limit."""
    for topic in facts.of(TopicRole.REPARTITION):
        retention = topic.number("retention.ms")
        if not topic.expires or retention is None or retention < 0:
            continue
        yield advice(
            "repartition-retention",
            Severity.CRITICAL,
            f"{topic.name} deletes records after {span(retention)} (retention.ms), whether the application has read them or not.",
            subject=topic.name,
            remedy=remedies.keep_repartition(facts.tools, topic.at_hand, deletes_read=facts.deletes_read),
            retention_seconds=retention / 1000,
        )


def outputs_empty(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Compacted outputs whose records no savepoint has. Nothing makes a key again that the application does not write again."""
    for topic in facts.of(TopicRole.OUTPUT):
        if not topic.compacted or topic.archived:
            continue
        yield advice(
            "outputs-empty",
            Severity.WARNING,
            f"{topic.name} is a compacted output, and its records are not in savepoints: after the loss of the cluster it comes back empty, and who reads it "
            "as a table misses each key until the application writes it again. Name it in topics.include.",
            subject=topic.name,
        )


def compaction_lag(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Changelogs that keep replaced records for more than a day by their owner's setting. Holds of savepoints do not count, and versioned stores need it."""
    for topic in facts.of(TopicRole.CHANGELOG):
        lag = topic.number(LAG)
        if not topic.compacted or lag is None or lag <= _DAY_MS:
            continue
        remedy = remedies.compact_sooner(facts.tools, topic.at_hand, owners=LAG in topic.overrides)
        if remedy is None:
            continue
        yield advice(
            "compaction-lag",
            Severity.WARNING,
            f"{topic.name} keeps every record for {span(lag)} before it may be compacted (min.compaction.lag.ms). A restore, and an instance without local "
            "state, read what newer records have replaced long ago.",
            subject=topic.name,
            remedy=remedy,
            lag_seconds=lag / 1000,
        )


def log_cleaner(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Brokers whose log cleaner is off: nothing is ever compacted."""
    if facts.broker.get("log.cleaner.enable") == "false":
        yield advice(
            "log-cleaner",
            Severity.CRITICAL,
            "The brokers' log cleaner is off (log.cleaner.enable=false). Changelogs grow without end, and restores with them. Set "
            "log.cleaner.enable=true in server.properties and restart the brokers.",
        )


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
            "delete-retention",
            Severity.WARNING,
            f"{topic.name} keeps the marks of deleted keys for {span(kept)} (delete.retention.ms), and savepoints are up to {span(interval)} apart. So every "
            "savepoint copies the whole changelog, because a deletion could have been missed.",
            subject=topic.name,
            remedy=remedies.keep_deletions(facts.tools, topic.at_hand, milliseconds=int(max(_DAY_MS, 2 * interval))),
            delete_retention_seconds=kept / 1000,
            interval_seconds=facts.interval_seconds,
        )


def hot_partition(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Partitions with a multiple of the offsets that the middle one has."""
    for topic in facts.of(TopicRole.CHANGELOG, TopicRole.INPUT):
        found = _hottest(topic)
        if found is None:
            continue
        partition, most, middle = found
        yield advice(
            "hot-partition",
            Severity.INFO,
            f"{topic.name}-{partition} has {most:,} offsets, and the middle one of its {len(topic.offsets)} partitions has {middle:,.0f}. One task, one "
            "thread and one instance handle a partition, so a restore takes as long as this one. A key that many records share, or keys that are "
            "not spread, is the usual reason: choose another key.",
            subject=topic.name,
            offsets=most,
            median_offsets=middle,
        )


def _hottest(topic: AdviceTopic) -> tuple[int, int, float] | None:
    if len(topic.offsets) < _HOT_PARTITIONS:
        return None
    most, middle = max(topic.offsets), statistics.median(topic.offsets)
    return (topic.offsets.index(most), most, middle) if most >= _HOT_OFFSETS and most >= _HOT_TIMES * max(middle, 1) else None


def segment_size(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Large changelogs whose newest segment may have hundreds of megabytes in each partition."""
    for topic in facts.of(TopicRole.CHANGELOG):
        size = topic.number("segment.bytes")
        if not topic.compacted or size is None or size < _LARGE_SEGMENT or sum(topic.offsets) < _COMPACTED_OFFSETS:
            continue
        yield advice(
            "segment-size",
            Severity.INFO,
            f"{topic.name} has segments of {size >> 20} MiB (segment.bytes), and the newest one of each of its {len(topic.offsets)} partitions is never "
            "compacted. A restore reads all that is in them.",
            subject=topic.name,
            remedy=remedies.smaller_segments(facts.tools, topic.at_hand, size=_BETTER_SEGMENT),
            segment_bytes=size,
            offsets=sum(topic.offsets),
        )


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
            "input-retention",
            Severity.INFO,
            f"{topic.name} keeps {most:,} bytes of each partition (retention.bytes), so how long it keeps a record depends on how much comes. "
            "No alert can foresee when input is deleted that is still needed.",
            subject=topic.name,
            remedy=remedies.keep_by_age(facts.tools, topic.at_hand, retention_ms=topic.number("retention.ms")),
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
            "input-retention",
            Severity.CRITICAL if retention < interval else Severity.WARNING,
            f"{topic.name} keeps records for {span(retention)} (retention.ms), and savepoints are up to {span(interval)} apart. {_what_is_lost(topic)}",
            subject=topic.name,
            remedy=remedies.keep_longer(facts.tools, topic.at_hand, milliseconds=int(max(7 * _DAY_MS, _INTERVALS * interval))),
            retention_seconds=retention / 1000,
            interval_seconds=facts.interval_seconds,
        )


def _what_is_lost(topic: AdviceTopic) -> str:
    if topic.archived:
        return "A savepoint that fails or comes late finds records deleted, and has a gap there."
    return "A restore goes on where its savepoint was taken, and does not find the input since then."


def replication(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics with fewer copies than the brokers could hold, up to three."""
    wanted = min(REPLICAS, facts.brokers)
    for topic in facts.topics:
        copies = topic.at_hand.copies
        needed = topic.number(IN_SYNC)
        # Where more are asked for than there are, that advice adds them.
        if not 0 < copies < wanted or (needed is not None and needed > copies):
            continue
        yield advice(
            "replication",
            Severity.WARNING if copies == 1 else Severity.INFO,
            f"{topic.name} has {copies} of {wanted} possible replicas. {_when_lost(copies)}",
            subject=topic.name,
            remedy=remedies.add_replicas(facts.tools, topic.at_hand, racks=facts.racks),
            replicas=copies,
            brokers=facts.brokers,
        )


def _when_lost(copies: int) -> str:
    if copies == 1:
        return "The loss of one disk loses its records, and a restore is the only way back."
    return "While one broker is down for maintenance, one more failure stops or loses it."


def min_in_sync(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics that take a record with one copy, or that no broker may be missing for."""
    for topic in facts.topics:
        needed, copies = topic.number(IN_SYNC), topic.at_hand.copies
        if needed is None or not copies:
            continue
        found = _in_sync(needed, copies)
        if found is None:
            continue
        severity, text = found
        yield advice(
            "min-insync",
            severity,
            f"{topic.name} {text}",
            subject=topic.name,
            remedy=remedies.write_safely(facts.tools, topic.at_hand, needed=needed, racks=facts.racks),
            min_insync=needed,
            replicas=copies,
        )


def _in_sync(needed: int, copies: int) -> tuple[Severity, str] | None:
    if needed > copies:
        # Brokers ask for no more than there are, from 3.7 on (Partition#effectiveMinIsr).
        what = (
            "one, and its loss is the loss of what was written"
            if copies == 1
            else "all of these, and nothing can be written while one broker is down"
        )
        return Severity.WARNING, f"asks for {needed} replicas in sync ({IN_SYNC}) and has {copies}: its brokers wait for {what}."
    # With two copies, two in sync would stop every write while one broker is down: more copies come first.
    if needed == 1 and copies >= REPLICAS:
        return (
            Severity.WARNING,
            f"takes a record when one of its {copies} replicas has it ({IN_SYNC}=1): the loss of that one loses the record.",
        )
    if needed == copies >= REPLICAS:
        return (
            Severity.WARNING,
            f"needs all of its {copies} replicas in sync ({IN_SYNC}): while one broker is down nothing can be written to it.",
        )
    return None


def unclean_election(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics whose leader may become a replica that lacks records."""
    for topic in facts.topics:
        if topic.settings.get(UNCLEAN) != "true":
            continue
        yield advice(
            "unclean-election",
            Severity.WARNING,
            f"A replica of {topic.name} that lacks acknowledged records may become its leader ({UNCLEAN}=true). State and committed offsets then belong "
            "to different histories.",
            subject=topic.name,
            remedy=remedies.elect_cleanly(facts.tools, topic.at_hand),
        )
