"""Decides which changelogs of a savepoint may be compacted to the newest row of each key, and describes the work for a Spark job.

Allowed are the stores that Kafka Streams restores key by key: key-value, list and suppress stores; and window and session stores, of which every key
is kept. In a versioned store every row of a key counts, and about an unknown store nothing is assumed. If a topic's settings contradict the declared
kind, the topic is not compacted: the full log is always right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams_recovery.core.kafka_types import StoreKind, TopicPartition, TopicRole
from streams_recovery.core.names import store_kind, store_name
from streams_recovery.core.repository.compaction_proof import CompactionProof
from streams_recovery.core.repository.manifest import CopiedRange, Manifest, PartitionImage, SegmentFile, TopicImage

# Their keys contain the time that decides which windows have expired, so deleted keys are part of the state.
WINDOWED = frozenset({StoreKind.WINDOW, StoreKind.SESSION})
COMPACTABLE = WINDOWED | {StoreKind.KEY_VALUE, StoreKind.LIST, StoreKind.SUPPRESS}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionToCompact:
    """The rows of ``[start, end)`` of a changelog, in these files in offset order. ``kind`` is the kind of its store."""

    tp: TopicPartition
    kind: StoreKind
    start: int
    end: int
    files: tuple[SegmentFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def keeps_deleted(self) -> bool:
        """True if a key is kept even if its newest row is a tombstone."""
        return self.kind in WINDOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSpec:
    """Work for a job: the partitions to compact. A file gets at most ``max_records`` rows. ``compression_level`` is that of zstd."""

    application_id: str
    partitions: tuple[PartitionToCompact, ...]
    max_records: int
    compression_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCompacted:
    """The result for one partition, and what the job found when it read both logs again. ``foreign`` counts rows that the store's kind does not
    write. ``problems`` are those of the new files.
    """

    tp: TopicPartition
    ranges: tuple[CopiedRange, ...]
    proof: CompactionProof
    foreign: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The result of a job."""

    partitions: tuple[PartitionCompacted, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCompaction:
    """The plan for one changelog: ``partitions`` to compact, and ``stays``: why the others, or all, are not compacted."""

    topic: str
    kind: StoreKind
    partitions: tuple[PartitionToCompact, ...]
    stays: tuple[str, ...]
    expected_rows: int | None

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    @property
    def payload_bytes(self) -> int:
        return sum(file.payload_bytes for partition in self.partitions for file in partition.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The plan for a savepoint: one entry for each changelog. All other topics stay unchanged."""

    application_id: str
    savepoint_id: str
    topics: tuple[TopicCompaction, ...]

    @property
    def partitions(self) -> tuple[PartitionToCompact, ...]:
        return tuple(partition for topic in self.topics for partition in topic.partitions)


def plan_compaction(source: Manifest, declared: Mapping[str, StoreKind | None]) -> CompactionPlan:
    """The changelogs of a savepoint that may be compacted and are worth it. ``declared`` has kinds by store name, None if not declared."""
    changelogs = (topic for topic in source.topics if topic.role is TopicRole.CHANGELOG)
    planned = tuple(_planned(topic, source.application_id, declared) for topic in changelogs)
    return CompactionPlan(application_id=source.application_id, savepoint_id=source.savepoint_id, topics=planned)


def _planned(topic: TopicImage, application_id: str, declared: Mapping[str, StoreKind | None]) -> TopicCompaction:
    declared_kind = declared.get(store_name(topic.name, application_id))
    kind = store_kind(topic.name, application_id, topic.config, declared_kind)
    if why := why_never(topic, kind):
        return TopicCompaction(topic=topic.name, kind=kind, partitions=(), stays=(why,), expected_rows=None)
    stays = {image.partition: why for image in topic.partitions if (why := _not_now(image))}
    images = [image for image in topic.partitions if image.partition not in stays]
    return TopicCompaction(
        topic=topic.name,
        kind=kind,
        partitions=tuple(_partition(topic.name, kind, image) for image in images),
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


def _partition(topic: str, kind: StoreKind, image: PartitionImage) -> PartitionToCompact:
    return PartitionToCompact(
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


def in_portions(files: Sequence[SegmentFile], max_bytes: int) -> Iterator[tuple[SegmentFile, ...]]:
    """``files`` in order, in groups of at most ``max_bytes`` or of one file. One task reads one group."""
    portion: list[SegmentFile] = []
    size = 0
    for file in files:
        if portion and size + file.bytes > max_bytes:
            yield tuple(portion)
            portion, size = [], 0
        portion.append(file)
        size += file.bytes
    if portion:
        yield tuple(portion)
