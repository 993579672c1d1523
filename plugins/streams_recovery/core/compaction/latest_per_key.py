"""Decides which changelogs of a savepoint may be compacted to the newest row of each key, and what a job has to show for them.

Allowed are the stores that Kafka Streams restores key by key: key-value, list and suppress stores; and window and session stores, of which every key
is kept. In a versioned store every row of a key counts, and about an unknown store nothing is assumed. If a topic's settings contradict the declared
kind, the topic is not compacted: the full log is always right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streams_recovery.core import codec
from streams_recovery.core.compaction.values import CompactionPlan, How, RangeCompacted, RangeToCompact, TopicCompaction
from streams_recovery.core.kafka_types import WINDOWED, StoreKind, TopicPartition, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.repository.compaction_proof import CompactionProof, Rewritten
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, SegmentFile, TopicImage

COMPACTABLE = WINDOWED | {StoreKind.KEY_VALUE, StoreKind.LIST, StoreKind.SUPPRESS}


def plan_keys(source: Manifest, declared: Mapping[str, StoreKind | None]) -> CompactionPlan:
    """The changelogs of a savepoint that may be compacted and are worth it. ``declared`` has kinds by store name, None if not declared."""
    return CompactionPlan(
        application_id=source.application_id,
        savepoint_id=source.savepoint_id,
        how=How.LATEST_PER_KEY,
        files=source.file_count,
        topics=tuple(_planned(topic, source.application_id, declared) for topic in source.topics if topic.role is TopicRole.CHANGELOG),
    )


def _planned(topic: TopicImage, application_id: str, declared: Mapping[str, StoreKind | None]) -> TopicCompaction:
    declared_kind = declared.get(store_name(topic.name, application_id))
    kind = store_kind(topic.name, application_id, topic.config, declared_kind)
    if why := why_never(topic, kind):
        return TopicCompaction(topic=topic.name, kind=kind, ranges=(), stays=(why,))
    stays = {image.partition: why for image in topic.partitions if (why := _not_now(image))}
    images = [image for image in topic.partitions if image.partition not in stays]
    return TopicCompaction(
        topic=topic.name,
        kind=kind,
        ranges=tuple(_partition(topic.name, kind, image) for image in images),
        stays=tuple(
            f"partitions {', '.join(str(number) for number, one in stays.items() if one == why)}: {why}"
            for why in dict.fromkeys(stays.values())
        ),
        expected_rows=_expected(images),
    )


def why_never(topic: TopicImage, kind: StoreKind) -> str | None:
    """The reason why a changelog must not be compacted to the newest row of each key, None if it may."""
    if kind is StoreKind.UNKNOWN:
        return "the kind of its store is not known; declare it under `stores`"
    if kind not in COMPACTABLE:
        return f"of a {kind} store every row counts"
    if topic.store not in (None, StoreKind.UNKNOWN, kind):
        return f"its store is said to be {kind} now, and was {topic.store} when the savepoint was taken"
    if "min.compaction.lag.ms" in topic.config:
        return f"its store is said to be {kind}, and its min.compaction.lag.ms is what only versioned stores get"
    policy = {part.strip() for part in topic.config.get("cleanup.policy", "").split(",")}
    fits = "compact" in policy if kind in WINDOWED else policy == {"compact"}
    return None if fits else f"its store is said to be {kind}, and its cleanup.policy is {topic.config.get('cleanup.policy')}"


def _not_now(image: PartitionImage) -> str | None:
    """The reason why one partition is not compacted, None if it is."""
    if image.gaps:
        return "it has a gap"
    if not image.rows:
        return "it holds no record"
    return "it is compacted already" if all(copied.compacted for copied in image.ranges) else None


def _partition(topic: str, kind: StoreKind, image: PartitionImage) -> RangeToCompact:
    return RangeToCompact(
        tp=TopicPartition(topic, image.partition),
        kind=kind,
        start=image.ranges[0].start,
        end=image.ranges[-1].end,
        files=tuple(image.files()),
    )


def _expected(images: Iterable[PartitionImage]) -> int | None:
    """An estimate of the rows that remain: as many as after the previous compaction, if there was one. None if unknown."""
    before = [[copied.file.rows if copied.file else 0 for copied in image.ranges if copied.compacted] for image in images]
    return sum(map(sum, before)) if before and all(before) else None


def proof_of_state(one: RangeCompacted) -> CompactionProof:
    """The proof for a partition, as the job has it."""
    return CompactionProof(**codec.fields_of(Rewritten, one), keys=one.keys, state_before=one.state_before, state_after=one.state_after)


def differing_state(wanted: RangeToCompact, one: RangeCompacted) -> str | None:
    """What shows that a partition is not the same after its compaction, None if it is."""
    files = [copied.file for copied in one.ranges if copied.file is not None]
    checks = {
        "; ".join(one.problems): not one.problems,
        f"{one.rows_before} rows were read, not {wanted.rows}": one.rows_before == wanted.rows,
        f"{one.rows_after} rows were read back, not {_rows(files)}": one.rows_after == _rows(files),
        f"{one.state_before} keys became {one.state_after}": one.state_before == one.state_after,
        "the keys are as many and not the same": proof_of_state(one).holds,
        "its ranges do not follow each other": _tile(wanted, one.ranges),
        "the newest timestamp is gone": not wanted.keeps_deleted or _newest(files) == _newest(wanted.files),
    }
    return next((what for what, holds in checks.items() if not holds), None)


def _rows(files: Sequence[SegmentFile]) -> int:
    return sum(file.rows for file in files)


def _newest(files: Sequence[SegmentFile]) -> int | None:
    return max((file.max_timestamp for file in files), default=None)


def _tile(wanted: RangeToCompact, ranges: Sequence[CopiedRange]) -> bool:
    edges = [wanted.start, *(copied.end for copied in ranges)]
    return edges[-1] == wanted.end and [copied.start for copied in ranges] == edges[:-1] and all(copied.compacted for copied in ranges)
