"""The values of a compaction: its plan, the work for a Spark job, and the result of that."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streams_recovery.core.kafka_types import WINDOWED, StoreKind, TopicPartition
from streams_recovery.core.repository.compaction_proof import Compaction, CompactionProof, MergeProof, Rewritten
from streams_recovery.core.repository.manifest import CopiedRange, SegmentFile

# Their keys contain the time that decides which windows have expired, so deleted keys are part of the state.


class How(enum.StrEnum):
    """The way in which files of a savepoint are written again. ``latest-per-key`` keeps the newest record of each key of a changelog and proves that the
    state is the same. ``small-files`` merges small files into larger ones and proves that every record is the same.
    """

    LATEST_PER_KEY = "latest-per-key"
    SMALL_FILES = "small-files"

    @property
    def verb(self) -> str:
        """What is done to a savepoint, as a verb."""
        return "compact" if self is How.LATEST_PER_KEY else "merge"

    @property
    def done(self) -> str:
        """What a savepoint is afterwards."""
        return "compacted" if self is How.LATEST_PER_KEY else "merged"

    @property
    def work(self) -> str:
        """The work, as a noun."""
        return "compaction" if self is How.LATEST_PER_KEY else "merge"


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeToCompact:
    """The rows of ``[start, end)`` of a partition, in these files in offset order. They are all ``compacted`` alike, or differ in it where the newest row of
    each key is kept: then it is None. ``kind`` is the kind of the changelog's store, where that counts.
    """

    tp: TopicPartition
    start: int
    end: int
    files: tuple[SegmentFile, ...]
    compacted: Compaction | None = None
    kind: StoreKind = StoreKind.UNKNOWN

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def keeps_deleted(self) -> bool:
        """True if a key is kept even if its newest row is a tombstone."""
        return self.kind in WINDOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSpec:
    """Work for a job. A file gets at most ``max_records`` rows. ``compression_level`` is that of zstd."""

    application_id: str
    how: How
    ranges: tuple[RangeToCompact, ...]
    max_records: int
    compression_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCompacted(Rewritten):
    """The result for one range: the ranges in its place, what the job found when it read the old and the new files (see ``CompactionProof`` and
    ``MergeProof``), and the ``problems`` of the new files. Keys, their states, and the ``foreign`` rows, which the store's kind does not write, are counted
    only where the newest row of each key is kept.
    """

    ranges: tuple[CopiedRange, ...]
    problems: tuple[str, ...]
    keys: int = 0
    state_before: int = 0
    state_after: int = 0
    foreign: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The result of a job."""

    ranges: tuple[RangeCompacted, ...]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCompaction:
    """The plan for one topic: its ``ranges`` to write again, and ``stays``: why the others, or all, stay as they are. ``expected_rows`` is an estimate of the
    rows that remain, None if unknown. ``kind`` is that of a changelog's store.
    """

    topic: str
    ranges: tuple[RangeToCompact, ...]
    kind: StoreKind = StoreKind.UNKNOWN
    stays: tuple[str, ...] = ()
    expected_rows: int | None = None

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.ranges)

    @property
    def payload_bytes(self) -> int:
        return sum(file.payload_bytes for one in self.ranges for file in one.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The plan for a savepoint with so many ``files``. Topics that are not in it stay unchanged. ``waiting`` ranges are left to the next run, because one run
    reads only so many files.
    """

    application_id: str
    savepoint_id: str
    how: How
    files: int
    topics: tuple[TopicCompaction, ...]
    waiting: int = 0

    @property
    def ranges(self) -> tuple[RangeToCompact, ...]:
        return tuple(one for topic in self.topics for one in topic.ranges)

    @property
    def rows(self) -> int:
        return sum(topic.rows for topic in self.topics)

    @property
    def files_after(self) -> int:
        """The files that there are when each range became one."""
        return self.files - sum(len(one.files) - 1 for one in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A range that was written again, as the job was told to: what is in its place, and the proof."""

    wanted: RangeToCompact
    ranges: tuple[CopiedRange, ...]
    proof: CompactionProof | MergeProof


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
