"""Checks of topics: what loses records of them, deletes or compacts them, and their partitions and replicas."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Final

from streams_recovery.core.checks.check import CatalogueCheck, CheckPlace, Found, Occasion, Severity
from streams_recovery.core.checks.facts import DAY_SECONDS, AdviceFacts, Facts, TopicFacts, TopicSet, span
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.remedies import topics as remedies
from streams_recovery.core.remedies.remedy import Remedy
from streams_recovery.core.remedies.savepoints import include_output
from streams_recovery.core.remedies.topics import IN_SYNC, LAG, REPLICAS, UNCLEAN
from streams_recovery.core.topic_settings import LOG_APPEND, TIMESTAMP_TYPE

_DAY_MS: Final = DAY_SECONDS * 1000
# Two savepoints in a row may fail, and a person needs a day to see to it.
_INTERVALS: Final = 3
_HOT_TIMES, _HOT_OFFSETS, _HOT_PARTITIONS = 5, 100_000, 3
# Bytes of a segment. The log cleaner never touches the segment that is being written.
_LARGE_SEGMENT, _BETTER_SEGMENT = 256 << 20, 64 << 20
# Below this a restore reads all of it in seconds, whatever was replaced.
_COMPACTED_OFFSETS: Final = 1_000_000

_CHANGELOG, _REPARTITION = frozenset({TopicRole.CHANGELOG}), frozenset({TopicRole.REPARTITION})
_INTERNAL, _INPUT, _OUTPUT = _CHANGELOG | _REPARTITION, frozenset({TopicRole.INPUT}), frozenset({TopicRole.OUTPUT})


def _changelog_policy(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    """Kafka Streams makes changelogs compacted."""
    for topic in facts.of(place.roles):
        if not topic.settings or topic.compacted:
            continue
        yield Found(
            severity=Severity.CRITICAL,
            topic=topic.name,
            text=f"is not compacted (cleanup.policy={topic.settings.get('cleanup.policy', '')}): state older than its retention is deleted, and an "
            "instance without local state cannot read it back",
            remedy=remedies.set_policy(facts.tools, topic),
        )


def _repartition_retention(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    """Kafka Streams deletes what it has read by itself, and sets no limit."""
    for topic in facts.of(place.roles):
        retention = topic.number("retention.ms")
        if not topic.expires or retention is None or retention < 0:
            continue
        yield Found(
            severity=Severity.CRITICAL,
            topic=topic.name,
            text=f"deletes records after {span(retention)} (retention.ms), whether the application has read them or not",
            remedy=remedies.keep_repartition(facts.tools, topic, deletes_read=facts.deletes_read),
            numbers={"retention_seconds": retention / 1000},
        )


def _outputs_empty(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    """Nothing makes a key again that the application does not write again. Before a savepoint that need not survive the loss of the cluster, all that is lost
    with it is told as one.
    """
    if place.asked is Occasion.SAVEPOINT and not facts.survives:
        return
    for topic in facts.of(place.roles):
        if topic.compacted and not topic.archived:
            yield Found(
                severity=Severity.WARNING,
                topic=topic.name,
                text="is a compacted output whose records are not in savepoints: after the loss of the cluster it comes back empty, and who reads it as a "
                "table misses each key until the application writes it again",
                remedy=include_output(),
            )


def _compaction_lag(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    """Holds of savepoints do not count, and versioned stores need it."""
    for topic in facts.of(place.roles):
        lag = topic.number(LAG)
        if not topic.compacted or lag is None or lag <= _DAY_MS:
            continue
        remedy = remedies.compact_sooner(facts.tools, topic, owners=LAG in topic.overrides)
        if remedy is None:
            continue
        yield Found(
            severity=Severity.WARNING,
            topic=topic.name,
            text=f"keeps every record for {span(lag)} before it may be compacted (min.compaction.lag.ms). A restore, and an instance without local "
            "state, read what newer records have replaced long ago",
            remedy=remedy,
            numbers={"lag_seconds": lag / 1000},
        )


def _delete_retention(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    """No savepoint can share files with the one before it where deletions in between may be gone."""
    if facts.interval_seconds is None:
        return
    interval = facts.interval_seconds * 1000
    for topic in facts.of(place.roles):
        kept = topic.number("delete.retention.ms")
        if not topic.compacted or not topic.archived or kept is None or kept > interval:
            continue
        yield Found(
            severity=Severity.WARNING,
            topic=topic.name,
            text=f"keeps the marks of deleted keys for {span(kept)} (delete.retention.ms), and savepoints are up to {span(interval)} apart. So every "
            "savepoint copies the whole changelog, because a deletion could have been missed",
            remedy=remedies.keep_deletions(facts.tools, topic, milliseconds=int(max(_DAY_MS, 2 * interval))),
            numbers={"delete_retention_seconds": kept / 1000, "interval_seconds": facts.interval_seconds},
        )


def _hot_partition(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        found = _hottest(topic)
        if found is None:
            continue
        partition, most, middle = found
        yield Found(
            severity=Severity.INFO,
            topic=topic.name,
            text=f"has {most:,} offsets in partition {partition}, and the middle one of its {len(topic.offsets)} partitions has {middle:,.0f}. One task, one "
            "thread and one instance handle a partition, so a restore takes as long as this one. A key that many records share, or keys that are "
            "not spread, is the usual reason: choose another key",
            numbers={"offsets": most, "median_offsets": middle},
        )


def _hottest(topic: TopicFacts) -> tuple[int, int, float] | None:
    if len(topic.offsets) < _HOT_PARTITIONS:
        return None
    most, middle = max(topic.offsets), statistics.median(topic.offsets)
    return (topic.offsets.index(most), most, middle) if most >= _HOT_OFFSETS and most >= _HOT_TIMES * max(middle, 1) else None


def _segment_size(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        size = topic.number("segment.bytes")
        if not topic.compacted or size is None or size < _LARGE_SEGMENT or sum(topic.offsets) < _COMPACTED_OFFSETS:
            continue
        yield Found(
            severity=Severity.INFO,
            topic=topic.name,
            text=f"has segments of {size >> 20} MiB (segment.bytes), and the newest one of each of its {len(topic.offsets)} partitions is never "
            "compacted. A restore reads all that is in them",
            remedy=remedies.smaller_segments(facts.tools, topic, size=_BETTER_SEGMENT),
            numbers={"segment_bytes": size, "offsets": sum(topic.offsets)},
        )


def _retention_bytes(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        most = topic.number("retention.bytes")
        if not topic.expires or most is None or most < 0:
            continue
        yield Found(
            severity=Severity.INFO,
            topic=topic.name,
            text=f"keeps {most:,} bytes of each partition (retention.bytes), so how long it keeps a record depends on how much comes. "
            "No alert can foresee when input is deleted that is still needed",
            remedy=remedies.keep_by_age(facts.tools, topic, retention_ms=topic.number("retention.ms")),
            numbers={"retention_bytes": most},
        )


def _input_retention(facts: AdviceFacts, place: CheckPlace) -> Iterator[Found]:
    if facts.interval_seconds is None:
        return
    interval = facts.interval_seconds * 1000
    for topic in facts.of(place.roles):
        retention = topic.number("retention.ms")
        if not topic.expires or retention is None or not 0 <= retention < _INTERVALS * interval:
            continue
        yield Found(
            severity=Severity.CRITICAL if retention < interval else Severity.WARNING,
            topic=topic.name,
            text=f"keeps records for {span(retention)} (retention.ms), and savepoints are up to {span(interval)} apart. {_what_is_lost(topic)}",
            remedy=remedies.keep_longer(facts.tools, topic, milliseconds=int(max(7 * _DAY_MS, _INTERVALS * interval))),
            numbers={"retention_seconds": retention / 1000, "interval_seconds": facts.interval_seconds},
        )


def _what_is_lost(topic: TopicFacts) -> str:
    if topic.archived:
        return "A savepoint that fails or comes late finds records deleted, and has a gap there"
    return "A restore goes on where its savepoint was taken, and does not find the input since then"


def _replication(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    """Fewer copies than the brokers could hold, up to three."""
    wanted = min(REPLICAS, facts.brokers.count)
    for topic in facts.of(place.roles):
        # Where the replicas in sync need more copies, that advice has the commands for these.
        added = place.asked is Occasion.ADVICE and (_too_many_in_sync(topic) or _few_in_sync(topic, wanted))
        if added or not 0 < topic.copies < wanted:
            continue
        single = topic.copies == 1
        yield Found(
            severity=Severity.WARNING if single else Severity.INFO,
            topic=topic.name,
            text=f"has {'one replica' if single else f'{topic.copies} replicas'}, and {wanted} are possible: "
            + (
                "the loss of one disk loses its records, and a restore is the only way back"
                if single
                else "while one broker is down for maintenance, one more failure stops or loses it"
            ),
            remedy=remedies.add_replicas(facts.tools, topic, racks=facts.brokers.racks)
            if place.asked is Occasion.ADVICE
            else remedies.more_replicas(brokers=facts.brokers.count, made=place.made),
            numbers={"replicas": topic.copies, "brokers": facts.brokers.count},
        )


def _more_than_brokers(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        if topic.copies > facts.brokers.count:
            yield Found(
                severity=Severity.CRITICAL,
                topic=topic.name,
                text=f"had {topic.copies} replicas, and {facts.brokers.count} brokers are up",
                remedy=remedies.fit_brokers(wanted=topic.copies, brokers=facts.brokers.count),
            )


def _few_in_sync(topic: TopicFacts, wanted: int) -> bool:
    """True where one replica is enough for a record to be taken, and more could be asked for: with two copies alone, two in sync would stop every write while
    one broker is down, so there a third one has to be possible.
    """
    return topic.number(IN_SYNC) == 1 and (topic.copies >= REPLICAS or topic.copies == REPLICAS - 1 < wanted)


def _too_many_in_sync(topic: TopicFacts) -> bool:
    return 0 < topic.copies < (topic.number(IN_SYNC) or 0)


def _writes_with_one(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    wanted = min(REPLICAS, facts.brokers.count)
    for topic in facts.of(place.roles):
        if _few_in_sync(topic, wanted):
            remedy = None if place.asked is Occasion.ADVICE else remedies.safer_writes(copies=topic.copies)
            yield _in_sync(
                facts,
                topic,
                f"counts a record as written when one of its {topic.copies} replicas has it ({IN_SYNC}=1): the loss of that one loses it",
                remedy,
            )


def _waits_for_more(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    """Brokers ask for no more replicas in sync than there are, from 3.7 on (Partition#effectiveMinIsr)."""
    for topic in facts.of(place.roles):
        if not _too_many_in_sync(topic):
            continue
        what = (
            "one, and its loss is the loss of what was written"
            if topic.copies == 1
            else "all of these, and nothing can be written while one broker is down"
        )
        needed = topic.number(IN_SYNC) or 0
        remedy = (
            remedies.fit_in_sync(needed=needed, copies=topic.copies, own=IN_SYNC in topic.overrides, brokers=facts.brokers.count)
            if place.made
            else None
        )
        yield _in_sync(
            facts, topic, f"asks for {needed} replicas in sync ({IN_SYNC}) and has {topic.copies}: its brokers wait for {what}", remedy
        )


def _needs_all(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        if topic.number(IN_SYNC) == topic.copies >= REPLICAS:
            text = f"needs all of its {topic.copies} replicas in sync ({IN_SYNC}): while one broker is down nothing can be written to it"
            yield _in_sync(facts, topic, text, None)


def _in_sync(facts: Facts, topic: TopicFacts, text: str, remedy: Remedy | None) -> Found:
    """One answer about replicas in sync. Without a ``remedy`` it is the one with commands."""
    needed = topic.number(IN_SYNC) or 0
    return Found(
        severity=Severity.WARNING,
        topic=topic.name,
        text=text,
        remedy=remedy or remedies.write_safely(facts.tools, topic, needed=needed, racks=facts.brokers.racks),
        numbers={"min_insync": needed, "replicas": topic.copies},
    )


def _unclean_election(facts: Facts, place: CheckPlace) -> Iterator[Found]:
    for topic in facts.of(place.roles):
        if topic.settings.get(UNCLEAN) == "true":
            yield Found(
                severity=Severity.WARNING,
                topic=topic.name,
                text=f"may lose acknowledged records ({UNCLEAN}=true): a replica that lacks them may become its leader. State and committed offsets then "
                "belong to different histories",
                remedy=remedies.elect_cleanly(facts.tools, topic) if place.asked is Occasion.ADVICE else remedies.elect_cleanly_there(),
            )


def _replaced_times(facts: TopicSet, place: CheckPlace) -> Iterator[Found]:
    """Kafka Streams makes its topics with the times of records. A restore keeps the times of what it loads."""
    for topic in facts.of(place.roles):
        if topic.settings.get(TIMESTAMP_TYPE) == LOG_APPEND:
            yield Found(
                severity=Severity.WARNING,
                topic=topic.name,
                text=f"replaces the times of records ({TIMESTAMP_TYPE}={LOG_APPEND}), and times are part of the state: results that depend on them (windows, "
                "joins, versions) are not guaranteed to be exact",
                remedy=remedies.keep_times(made=place.made),
            )


def _advised(kind: str, roles: frozenset[TopicRole] = frozenset(TopicRole)) -> CheckPlace:
    return CheckPlace(asked=Occasion.ADVICE, kind=kind, roles=roles)


def _durability(roles: frozenset[TopicRole] = _INTERNAL) -> tuple[CheckPlace, ...]:
    """Before a savepoint the application's own topics: others belong to other people. Before a restore whatever it makes."""
    return CheckPlace(asked=Occasion.SAVEPOINT, kind="durability", roles=roles), CheckPlace(asked=Occasion.RESTORE, kind="durability")


REPLACED_TIMES: Final = CatalogueCheck(
    "Does the broker replace the times of records?",
    _replaced_times,
    tuple(CheckPlace(asked=asked, kind="timestamps", roles=_INTERNAL) for asked in (Occasion.SAVEPOINT, Occasion.RESTORE)),
)
CHECKS: Final[tuple[CatalogueCheck[AdviceFacts], ...]] = (
    CatalogueCheck(
        "Does an input keep its records until savepoints, or a restore of the newest one, have read them?",
        _input_retention,
        (_advised("input-retention", _INPUT),),
        severities=(Severity.CRITICAL, Severity.WARNING),
    ),
    CatalogueCheck("Does an input delete by size?", _retention_bytes, (_advised("input-retention", _INPUT),), severities=(Severity.INFO,)),
    CatalogueCheck(
        "Is a changelog compacted?", _changelog_policy, (_advised("changelog-policy", _CHANGELOG),), severities=(Severity.CRITICAL,)
    ),
    CatalogueCheck(
        "Does a repartition topic delete by age?",
        _repartition_retention,
        (_advised("repartition-retention", _REPARTITION),),
        severities=(Severity.CRITICAL,),
    ),
    CatalogueCheck(
        "Does a changelog keep deletions from savepoint to savepoint?", _delete_retention, (_advised("delete-retention", _CHANGELOG),)
    ),
    CatalogueCheck("May a changelog be compacted at once?", _compaction_lag, (_advised("compaction-lag", _CHANGELOG),)),
    CatalogueCheck(
        "Are the segments of a large changelog small?", _segment_size, (_advised("segment-size", _CHANGELOG),), severities=(Severity.INFO,)
    ),
    CatalogueCheck(
        "Do partitions have about the same?", _hot_partition, (_advised("hot-partition", _CHANGELOG | _INPUT),), severities=(Severity.INFO,)
    ),
)
"""Asked as advice only."""
SHARED: Final[tuple[CatalogueCheck[Facts], ...]] = (
    CatalogueCheck(
        "Does a compacted output come back with its records?",
        _outputs_empty,
        (CheckPlace(asked=Occasion.SAVEPOINT, kind="outputs-empty", roles=_OUTPUT), _advised("outputs-empty", _OUTPUT)),
    ),
    CatalogueCheck(
        "Has a topic as many replicas as the brokers can hold?",
        _replication,
        (*_durability(), _advised("replication")),
        severities=(Severity.WARNING, Severity.INFO),
    ),
    CatalogueCheck(
        "Are there as many brokers as a topic needs?",
        _more_than_brokers,
        (CheckPlace(asked=Occasion.RESTORE, kind="replication"),),
        severities=(Severity.CRITICAL,),
    ),
    CatalogueCheck("Is a record taken before a second replica has it?", _writes_with_one, (*_durability(), _advised("min-insync"))),
    CatalogueCheck(
        "Does a topic ask for more replicas in sync than it has?",
        _waits_for_more,
        (CheckPlace(asked=Occasion.RESTORE, kind="min-insync"), _advised("min-insync")),
    ),
    CatalogueCheck("Must all replicas be in sync?", _needs_all, (_advised("min-insync"),)),
    CatalogueCheck("May a replica that lacks records become a leader?", _unclean_election, (*_durability(), _advised("unclean-election"))),
    REPLACED_TIMES,
)
"""Asked in several places."""
