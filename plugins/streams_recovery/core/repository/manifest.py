"""The manifest of a savepoint: format version 3, as docs/format.md lays it down.

A savepoint exists only when its manifest does. A manifest is written once, last, and never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from streams_recovery.core import codec
from streams_recovery.core.compaction.proof import CompactedFrom, Compaction
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
from streams_recovery.core.repository.checked_names import check_names, check_numbered, check_segment_key
from streams_recovery.core.repository.checked_numbers import check_epoch, check_replicas, check_settings
from streams_recovery.core.timestamps import LAST_MOMENT

FORMAT_VERSION: Final = 3
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One immutable Parquet file. ``key`` is relative to the repository. Timestamps are the true minimum and maximum, not first and last.
    ``payload_bytes`` counts keys and values: what a restore will have to send, headers and framing aside.
    """

    key: str
    bytes: int
    sha256: str
    rows: int
    first_offset: int
    last_offset: int
    min_timestamp: int
    max_timestamp: int
    payload_bytes: int

    @property
    def possible(self) -> bool:
        """False when no file can have these numbers, whatever is in it."""
        counted = 0 < self.rows <= self.last_offset - self.first_offset + 1
        return counted and min(self.bytes, self.payload_bytes, self.first_offset) >= 0 and self.min_timestamp <= self.max_timestamp

    def damaged(self, what: str) -> Damaged:
        """The error for a stored file that is not what this says of it."""
        return Damaged(
            f"{self.key} {what}: offsets {self.first_offset} to {self.last_offset} cannot be trusted",
            next_step="restore this file from a copy of the repository, or choose another savepoint",
            key=self.key,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRange:
    """The offsets ``[start, end)`` of one partition, read to the end. ``file`` is None when no readable record was there:
    transaction markers, aborted records and compacted-away records take offsets but are no rows. From a ``reduced``
    range rows are missing that later rows replace, in it or in reduced ranges behind it: together they are the same state, not the same log.
    """

    start: int
    end: int
    file: SegmentFile | None
    reduced: Compaction | None = None

    def __post_init__(self) -> None:
        inside = self.file is None or self.start <= self.file.first_offset <= self.file.last_offset < self.end
        if not (0 <= self.start < self.end and inside):
            raise Damaged(
                f"copied range [{self.start}, {self.end}) does not fit its file {self.file}",
                next_step="do not use this savepoint; verify the repository",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets ``[start, end)`` that were gone before they could be copied."""

    start: int
    end: int
    reason: str

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise Damaged(f"[{self.start}, {self.end}) is no gap", next_step="do not use this savepoint; verify the repository")


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
    ranges: tuple[CopiedRange, ...]
    gaps: tuple[Gap, ...]

    def __post_init__(self) -> None:
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
        return sum(file.rows for file in self.files())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic at the cut. ``config`` has the overrides from before our hold was applied. ``archived`` tells whether its records are
    in the savepoint; an input that is not archived still has its committed offsets here. ``full_since`` is the capture time of the savepoint
    that last copied it from the start of its log.
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
    """

    format_version: Literal[3]
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

    def whole(self, sizes: Mapping[str, int]) -> bool:
        """True when every file it needs is among ``sizes`` (bytes by key) with its size."""
        return all(sizes.get(file.key) == file.bytes for _, file in self.files())


def read(data: bytes, *, where: str) -> Manifest:
    """The manifest in ``data`` (JSON, already decompressed). Raises ``Damaged``; another format is refused by its number, not guessed at."""
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
    _check_files(manifest, where)
    for topic in manifest.topics:
        _check_numbers(topic, where)
        check_numbered(topic.name, [partition.partition for partition in topic.partitions], where=where)
        for partition in topic.partitions:
            _check_tiling(topic, partition, where)
            _check_reduced(topic, partition, where)
    _check_proof(manifest, where)
    return manifest


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


def _check_tiling(topic: TopicImage, partition: PartitionImage, where: str) -> None:
    if not topic.archived:
        return
    begin = partition.log_start
    if topic.role is TopicRole.REPARTITION and partition.committed is not None:
        begin = partition.committed.offset
    pieces = sorted([(r.start, r.end) for r in partition.ranges] + [(g.start, g.end) for g in partition.gaps])
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


def _check_reduced(topic: TopicImage, partition: PartitionImage, where: str) -> None:
    # Only a changelog stands for a state; of every other topic each record counts.
    if topic.role is not TopicRole.CHANGELOG and any(copied.reduced for copied in partition.ranges):
        raise Damaged(
            f"{where}: {topic.name}-{partition.partition} is reduced, and it is no changelog",
            next_step="do not use this savepoint; choose another one",
            topic=topic.name,
            partition=partition.partition,
        )


def _check_proof(manifest: Manifest, where: str) -> None:
    source = manifest.provenance.reduced_from
    if source is None:
        return
    images = {TopicPartition(topic.name, image.partition): image for topic in manifest.topics for image in topic.partitions}
    found = {TopicPartition(proof.topic, proof.partition): proof for proof in source.proofs}
    wrong = [
        tp
        for tp, proof in found.items()
        if tp not in images or images[tp].rows != proof.rows_after or not all(copied.reduced for copied in images[tp].ranges)
    ]
    if wrong or not source.proven or len(found) != len(source.proofs):
        raise Damaged(
            f"{where} is reduced from {source.savepoint_id}, and it is not proven that it holds the same state"
            + (f": see {wrong[0]}" if wrong else ""),
            next_step="do not use this savepoint; use the one it was made from",
            savepoint=source.savepoint_id,
        )


def _check_files(manifest: Manifest, where: str) -> None:
    for tp, file in manifest.files():
        check_segment_key(file.key, manifest.application_id, tp, where=where)
        if not file.possible:
            raise Damaged(
                f"{where} names {file.key} for {tp} with {file.rows} rows in {file.bytes} bytes, offsets {file.first_offset} to {file.last_offset}, "
                f"{file.payload_bytes} bytes of keys and values and timestamps {file.min_timestamp} to {file.max_timestamp}, which cannot be",
                next_step="do not use this savepoint; verify the repository",
                topic=tp.topic,
                partition=tp.partition,
            )
