"""Advice about the settings of topics: what deletes or compacts their records, their partitions, and their replicas."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.preflight.findings import MIN_IN_SYNC, UNCLEAN
from streams_recovery.core.status.advice.facts import DAY_SECONDS, AdviceFacts, AdviceTopic, advice, kafka_command, set_on_topic, span
from streams_recovery.core.status.report import Severity, StatusFinding
from streams_recovery.core.words import shell

_DAY_MS: Final = DAY_SECONDS * 1000
# Two savepoints in a row may fail, and a person needs a day to see to it.
_INTERVALS: Final = 3
_HOT_TIMES, _HOT_OFFSETS, _HOT_PARTITIONS = 5, 100_000, 3
# Bytes of a segment. The log cleaner never touches the one that is written.
_LARGE_SEGMENT, _BETTER_SEGMENT = 256 << 20, 64 << 20
# Below this a restore reads all of it in seconds, whatever was replaced.
_COMPACTED_OFFSETS: Final = 1_000_000
_REPLICAS: Final = 3
# A command of more partitions is no command that anybody reads.
_MOST_PARTITIONS: Final = 60


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
            remedies=(set_on_topic(facts, topic.name, "cleanup.policy", "compact"),),
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
            f"{topic.name} deletes records after {span(retention)} (retention.ms), whether the application has read them or not. Kafka Streams makes it "
            "with retention.ms=-1.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "retention.ms", -1),),
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
    """Changelogs that keep replaced records for more than a day by their owner's setting. Holds of savepoints do not count."""
    for topic in facts.of(TopicRole.CHANGELOG):
        lag = topic.number("min.compaction.lag.ms")
        if not topic.compacted or lag is None or lag <= _DAY_MS:
            continue
        yield advice(
            "compaction-lag",
            Severity.WARNING,
            f"{topic.name} keeps every record for {span(lag)} before it may be compacted (min.compaction.lag.ms). A restore, and an instance without local "
            "state, read what newer records have replaced long ago.",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "min.compaction.lag.ms", 0),),
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
            remedies=(set_on_topic(facts, topic.name, "delete.retention.ms", int(max(_DAY_MS, 2 * interval))),),
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
            remedies=(set_on_topic(facts, topic.name, "segment.bytes", _BETTER_SEGMENT),),
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
            "input-retention",
            Severity.CRITICAL if retention < interval else Severity.WARNING,
            f"{topic.name} keeps records for {span(retention)} (retention.ms), and savepoints are up to {span(interval)} apart. {_what_is_lost(topic)}",
            subject=topic.name,
            remedies=(set_on_topic(facts, topic.name, "retention.ms", int(max(7 * _DAY_MS, _INTERVALS * interval))),),
            retention_seconds=retention / 1000,
            interval_seconds=facts.interval_seconds,
        )


def _what_is_lost(topic: AdviceTopic) -> str:
    if topic.archived:
        return "A savepoint that fails or comes late finds records deleted, and has a gap there."
    return "A restore goes on where its savepoint was taken, and does not find the input since then."


def replication(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics with fewer copies than the brokers could hold, up to three."""
    wanted = min(_REPLICAS, facts.brokers)
    for topic in facts.topics:
        copies = topic.replication_factor
        if not 0 < copies < wanted:
            continue
        yield advice(
            "replication",
            Severity.WARNING if copies == 1 else Severity.INFO,
            f"{topic.name} has {copies} of {wanted} possible replicas. {_when_lost(copies)}{_how(topic, wanted)}",
            subject=topic.name,
            remedies=_add_replicas(facts, topic, wanted),
            replicas=copies,
            brokers=facts.brokers,
        )


def _when_lost(copies: int) -> str:
    if copies == 1:
        return "The loss of one disk loses its records, and a restore is the only way back. "
    return "While one broker is down for maintenance, one more failure stops or loses it. "


def _how(topic: AdviceTopic, wanted: int) -> str:
    own = (
        f"Set replication.factor={wanted} in the application for topics that Kafka Streams makes from now on, and a"
        if topic.role.internal
        else "A"
    )
    return f"{own}dd replicas to those that are there with kafka-reassign-partitions.sh, which copies them."


def _add_replicas(facts: AdviceFacts, topic: AdviceTopic, wanted: int) -> tuple[str, ...]:
    """The commands that write the plan of the reassignment and carry it out. None for a topic of very many partitions."""
    if len(topic.replicas) > _MOST_PARTITIONS:
        return ()
    placed = widened(topic.replicas, facts.broker_ids, wanted)
    plan = {
        "version": 1,
        "partitions": [{"topic": topic.name, "partition": number, "replicas": list(brokers)} for number, brokers in enumerate(placed)],
    }
    file = f"add-replicas-{topic.name}.json"
    return (
        f"echo {shell(json.dumps(plan, separators=(',', ':')))} > {file}",
        kafka_command(facts, "kafka-reassign-partitions.sh", "--reassignment-json-file", file, "--execute"),
    )


def widened(placed: Sequence[Sequence[int]], brokers: Sequence[int], wanted: int) -> tuple[tuple[int, ...], ...]:
    """The placement with ``wanted`` replicas of each partition. Replicas that are there stay, and the leader stays first. New ones go to the brokers with the
    fewest.
    """
    load = Counter(dict.fromkeys(brokers, 0))
    load.update(broker for replicas in placed for broker in replicas)
    found = []
    for replicas in placed:
        more = list(replicas)
        while len(more) < wanted and (free := [broker for broker in brokers if broker not in more]):
            least = min(free, key=lambda broker: (load[broker], broker))
            load[least] += 1
            more.append(least)
        found.append(tuple(more))
    return tuple(found)


def min_in_sync(facts: AdviceFacts) -> Iterator[StatusFinding]:
    """Topics that take a record with one copy, or that no broker may be missing for."""
    for topic in facts.topics:
        needed, copies = topic.number(MIN_IN_SYNC), topic.replication_factor
        if needed is None:
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
            remedies=(set_on_topic(facts, topic.name, MIN_IN_SYNC, max(1, min(2, copies - 1))),),
            min_insync=needed,
            replicas=copies,
        )


def _in_sync(needed: int, copies: int) -> tuple[Severity, str] | None:
    if needed > copies:
        return Severity.CRITICAL, f"needs {needed} replicas in sync ({MIN_IN_SYNC}) and has {copies}: nothing can be written to it."
    # With two copies, two in sync would stop every write while one broker is down: more copies come first.
    if needed == 1 and copies >= _REPLICAS:
        return (
            Severity.WARNING,
            f"takes a record when one of its {copies} replicas has it ({MIN_IN_SYNC}=1): the loss of that one loses the record.",
        )
    if needed == copies >= _REPLICAS:
        return (
            Severity.WARNING,
            f"needs all of its {copies} replicas in sync ({MIN_IN_SYNC}): while one broker is down nothing can be written to it.",
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
            remedies=(set_on_topic(facts, topic.name, UNCLEAN, "false"),),
        )
