"""The manifest of a savepoint: format version 4, as docs/format.md lays it down.

A savepoint exists only when its manifest does. A manifest is written once, last, and never changed. Its ranges stand in range tables: a reader who needs
them asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal

from streams_recovery.core import codec
from streams_recovery.core.compaction.proof import CompactedFrom
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import (
    ClaimedTopic,
    CommittedOffset,
    Consistency,
    Guarantee,
    Profile,
    QuiesceMode,
    StoreKind,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.repository.archive_facts import NOTHING, ArchiveFacts
from streams_recovery.core.repository.checked_names import check_names, check_numbered
from streams_recovery.core.repository.checked_numbers import check_epoch, check_replicas, check_settings
from streams_recovery.core.repository.checked_tables import check_tables
from streams_recovery.core.repository.range_columns import REDUCED, RangeColumns
from streams_recovery.core.repository.ranges import Ranges, TableRef
from streams_recovery.core.repository.segment_file import CopiedRange, Gap, SegmentFile
from streams_recovery.core.timestamps import LAST_MOMENT

__all__ = [
    "FORMAT_VERSION", "CopiedRange", "CutProof", "Gap", "Manifest", "PartitionImage", "Provenance", "SegmentFile", "TopicImage", "check_pieces", "read",
    "with_ranges",
]  # fmt: skip

FORMAT_VERSION: Final = 4
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """One partition at the cut.

    ``log_start``, ``last_stable`` and ``end`` are what the broker said at the cut (``end`` is the cut's end E, exclusive).
    ``ranges`` tile the archived part of the log in offset order; they are empty when the topic's records are not archived.
    """

    partition: int
    log_start: int
    last_stable: int
    end: int
    leader_epoch: int | None
    committed: CommittedOffset | None
    ranges: Ranges
    gaps: tuple[Gap, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", Ranges.of(self.ranges))
        numbers = (self.partition, self.log_start, self.last_stable, self.end, self.committed.offset if self.committed else 0)
        if min(numbers) < 0:
            raise Damaged(
                f"partition, log start, last stable offset, end and committed offset cannot be {', '.join(map(str, numbers))}",
                next_step="do not use this savepoint; verify the repository",
            )

    def files(self) -> Iterator[SegmentFile]:
        """The segment files in offset order."""
        return (copied.file for copied in self.ranges if copied.file is not None)

    @property
    def rows(self) -> int:
        """Records archived for this partition."""
        return self.ranges.facts.rows

    @property
    def archived_from(self) -> int:
        """Where its first range begins; its end when it has none."""
        start = self.ranges.facts.start
        return self.end if start is None else start


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic at the cut. ``config`` has the overrides from before our hold was applied. ``archived`` tells whether its records are
    in the savepoint; an input that is not archived still has its committed offsets here. ``full_since`` is the capture time of the savepoint
    that last copied it from the start of its log. ``tables`` hold the ranges of its partitions, those of older savepoints first.
    """

    name: str
    role: TopicRole
    topic_id: str
    replication_factor: int
    config: dict[str, str]
    store: StoreKind | None
    archived: bool
    full_since: int
    partitions: tuple[PartitionImage, ...]
    tables: tuple[TableRef, ...] = field(default=(), compare=False)

    @property
    def rows(self) -> int:
        """Records archived for this topic."""
        return sum(partition.rows for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProof:
    """Why the label is what it is. ``reasons`` name what stood against ``exact``; empty when the label is exact."""

    mode: QuiesceMode
    committed_unchanged: bool
    stable_reached: bool
    still_between_reads: bool
    held_seconds: float
    attempts: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who asked for this savepoint, why, and with which versions. ``reduced_from`` is None for one that was taken from a cluster. ``intended`` are
    changes of state since the savepoint before that would be damage, had nobody said that they were meant.
    """

    run_id: str
    requested_by: str
    reason: str
    software: dict[str, str]
    reduced_from: CompactedFrom | None = None
    intended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A savepoint. ``parent_id`` names the savepoint whose files this one shares; None means it was copied in full.
    ``captured_at`` is the moment of the cut and the savepoint's time. ``claimed`` topics are not among its topics.
    ``previous_sha256`` and ``encryption_key_id`` are reserved.
    """

    format_version: Literal[4]
    savepoint_id: str
    application_id: str
    cluster_id: str
    captured_at: int
    consistency: Consistency
    proof: CutProof
    guarantee: Guarantee
    group_type: str
    parent_id: str | None
    topics: tuple[TopicImage, ...]
    claimed: tuple[ClaimedTopic, ...]
    provenance: Provenance
    previous_sha256: None = None
    encryption_key_id: None = None

    @property
    def records(self) -> int:
        """Records in the savepoint, all topics together."""
        return sum(topic.rows for topic in self.topics)

    @property
    def profile(self) -> Profile:
        """``minimal`` when records of an internal topic are left out, or when there was none: such a savepoint has no state. That topics are missing
        from a damaged one says nothing about what it was to be.
        """
        archived = [topic.archived for topic in self.topics if topic.role.internal]
        stateless = not archived and self.consistency is not Consistency.DAMAGED
        return Profile.MINIMAL if stateless or not all(archived) else Profile.FULL

    @property
    def replaces(self) -> str | None:
        """The savepoint of the same cut and state that this one was reduced from and can stand for, None when there is none."""
        source = self.provenance.reduced_from
        return source.savepoint_id if source is not None and source.proven else None

    def topic(self, name: str) -> TopicImage | None:
        """The image of a topic, or None when the savepoint does not know it."""
        return next((topic for topic in self.topics if topic.name == name), None)

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """Committed offsets of every partition that had one at the cut."""
        return {
            TopicPartition(topic.name, partition.partition): partition.committed
            for topic in self.topics
            for partition in topic.partitions
            if partition.committed is not None
        }

    def files(self) -> Iterator[tuple[TopicPartition, SegmentFile]]:
        """Every segment file the savepoint needs."""
        for topic in self.topics:
            for partition in topic.partitions:
                for file in partition.files():
                    yield TopicPartition(topic.name, partition.partition), file

    @property
    def file_count(self) -> int:
        """How many files it needs."""
        return sum(image.ranges.facts.files for topic in self.topics for image in topic.partitions)

    def whole(self, sizes: Mapping[str, int]) -> bool:
        """True when every file it needs is among ``sizes`` (bytes by key) with its size."""
        pieces = (image.ranges for topic in self.topics for image in topic.partitions)
        return all(sizes.get(key) == size for ranges in pieces for key, size in ranges.sizes())


def read(data: bytes, *, where: str) -> Manifest:
    """The manifest in ``data`` (JSON, already decompressed), without its ranges. Raises ``Damaged``; another format is refused by its number, not guessed
    at.
    """
    plain = codec.loads(dict[str, object], data, where=where)
    version = plain.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        shown = f"{version!r:.{_SHOWN}}"
        raise Damaged(
            f"{where} has format version {shown}, this software reads {FORMAT_VERSION}",
            next_step="use the release of this software that wrote the savepoint",
            where=where,
            version=version if isinstance(version, int) else shown,
        )
    manifest: Manifest = codec.decode(Manifest, plain, where=where)
    check_names("application id", [manifest.application_id], where=where)
    check_names("topic", [topic.name for topic in manifest.topics], where=where)
    _check_moments(manifest, where)
    for topic in manifest.topics:
        _check_numbers(topic, where)
        check_numbered(topic.name, [partition.partition for partition in topic.partitions], where=where)
    check_tables([(topic.name, topic.tables, [image.ranges.facts for image in topic.partitions]) for topic in manifest.topics], where=where)
    for topic in manifest.topics:
        for partition in topic.partitions:
            check_tiling(topic, partition, partition.ranges.facts, (), where)
    _check_proof(manifest, where)
    return replace(manifest, topics=tuple(_within_tables(topic) for topic in manifest.topics))


def _within_tables(topic: TopicImage) -> TopicImage:
    return replace(topic, partitions=tuple(replace(image, ranges=image.ranges.within(topic.tables)) for image in topic.partitions))


def with_ranges(manifest: Manifest, tables: Mapping[str, Mapping[int, RangeColumns]], *, where: str) -> Manifest:
    """``manifest`` as it was read, with its ranges out of these ``tables``, by hash. Raises ``Damaged`` when they are not what it says of them."""
    filled = replace(manifest, topics=tuple(_filled(topic, manifest.application_id, tables, where) for topic in manifest.topics))
    source = manifest.provenance.reduced_from
    proven = {(proof.topic, proof.partition) for proof in source.proofs} if source is not None else set()
    for topic in filled.topics:
        for image in topic.partitions:
            if (topic.name, image.partition) in proven and not all(copied.reduced for copied in image.ranges):
                raise _unproven(manifest.provenance.reduced_from, f": see {topic.name}-{image.partition}", where)
    return filled


def _filled(topic: TopicImage, application_id: str, tables: Mapping[str, Mapping[int, RangeColumns]], where: str) -> TopicImage:
    images = []
    for image in topic.partitions:
        held = [tables[ref.sha256][image.partition] for ref in topic.tables if image.partition in tables[ref.sha256]]
        pieces = held[0] if len(held) == 1 else RangeColumns(application_id, TopicPartition(topic.name, image.partition))
        for one in held if len(held) > 1 else ():
            pieces.extend(one)
        said = image.ranges.facts
        if replace(pieces.facts(said.savepoints), ranges=sum(map(len, held))) != said:
            raise Damaged(
                f"{where}: its tables do not hold what it says of {topic.name}-{image.partition}",
                next_step="do not use this savepoint; verify the repository and choose another one",
                topic=topic.name,
                partition=image.partition,
            )
        check_pieces(topic, image, NOTHING, pieces, where)
        images.append(replace(image, ranges=image.ranges.within(topic.tables, pieces)))
    return replace(topic, partitions=tuple(images))


def _check_moments(manifest: Manifest, where: str) -> None:
    for moment in (manifest.captured_at, *(topic.full_since for topic in manifest.topics)):
        if not 0 <= moment <= LAST_MOMENT:
            raise Damaged(f"{where} has the moment {moment} ms, which is none", next_step="choose another savepoint", where=where)


def _check_numbers(topic: TopicImage, where: str) -> None:
    check_replicas(topic.replication_factor, topic=topic.name, where=where)
    check_settings(topic.config, topic=topic.name, where=where)
    for image in topic.partitions:
        for epoch in (image.leader_epoch, image.committed.leader_epoch if image.committed is not None else None):
            check_epoch(epoch, what=f"{topic.name}-{image.partition}", where=where)


def check_pieces(topic: TopicImage, partition: PartitionImage, before: ArchiveFacts, pieces: RangeColumns, where: str) -> None:
    """Raise ``Damaged`` unless what there is up to ``before``, these pieces behind it, and the partition's gaps are the archived part of its log, and nothing
    but a changelog is reduced.
    """
    check_tiling(topic, partition, before, pieces.runs(), where)
    # Only a changelog stands for a state; of every other topic each record counts.
    if topic.role is not TopicRole.CHANGELOG and any(flag & REDUCED for flag in pieces.flags):
        raise Damaged(
            f"{where}: {topic.name}-{partition.partition} is reduced, and it is no changelog",
            next_step="do not use this savepoint; choose another one",
            topic=topic.name,
            partition=partition.partition,
        )


def check_tiling(topic: TopicImage, partition: PartitionImage, before: ArchiveFacts, runs: Sequence[tuple[int, int]], where: str) -> None:
    """The same of offsets alone, by the runs of the pieces. Gaps within ``before`` are known only to its ranges."""
    if not topic.archived:
        return
    begin = partition.log_start
    if topic.role is TopicRole.REPARTITION and partition.committed is not None:
        begin = partition.committed.offset
    known = [] if before.start is None or before.end is None else [(before.start, before.end)]
    gaps = [gap for gap in partition.gaps if not any(start <= gap.start and gap.end <= end for start, end in known)]
    pieces = sorted([*known, *runs, *((gap.start, gap.end) for gap in gaps)])
    if not pieces and begin >= partition.end:
        return
    joined = all(left[1] == right[0] for left, right in pairwise(pieces))
    # An archive may reach further back than the log does; a tail begins where it was not read.
    if pieces and joined and pieces[0][0] <= begin and pieces[-1][1] == partition.end:
        return
    raise Damaged(
        f"{where}: the ranges of {topic.name}-{partition.partition} do not tile its log from {begin} to {partition.end}: {pieces[:20]}",
        next_step="do not use this savepoint; verify the repository and choose another one",
        topic=topic.name,
        partition=partition.partition,
    )


def _check_proof(manifest: Manifest, where: str) -> None:
    source = manifest.provenance.reduced_from
    if source is None:
        return
    images = {TopicPartition(topic.name, image.partition): image for topic in manifest.topics for image in topic.partitions}
    found = {TopicPartition(proof.topic, proof.partition): proof for proof in source.proofs}
    wrong = [tp for tp, proof in found.items() if tp not in images or images[tp].rows != proof.rows_after]
    if wrong or not source.proven or len(found) != len(source.proofs):
        raise _unproven(source, f": see {wrong[0]}" if wrong else "", where)


def _unproven(source: CompactedFrom | None, what: str, where: str) -> Damaged:
    named = source.savepoint_id if source is not None else None
    return Damaged(
        f"{where} is reduced from {named}, and it is not proven that it holds the same state{what}",
        next_step="do not use this savepoint; use the one it was made from",
        savepoint=named,
    )
