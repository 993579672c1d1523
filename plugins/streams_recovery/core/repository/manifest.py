"""The manifest of a savepoint: format versions 8 to 10, as docs/format.md lays them down. Version 9 is that of a cut by the names of transactions, version 10
that of a savepoint with encrypted segments, whatever its cut.

A savepoint exists only when its manifest does. A manifest is written once, last, and never changed. Its ranges stand in range tables: a reader who needs
them asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import (
    ClaimedTopic,
    CommittedOffset,
    Consistency,
    Evidence,
    Guarantee,
    Profile,
    QuiesceMode,
    StoreKind,
    TopicPartition,
    TopicRole,
)
from streams_recovery.core.named_transactions.proof import NamedProof
from streams_recovery.core.repository.compaction_proof import CompactedFrom, MergedFrom, RescaledFrom
from streams_recovery.core.repository.encryption import newest_key
from streams_recovery.core.repository.ranges import Ranges, TableRef
from streams_recovery.core.repository.segment_file import CopiedRange, Gap, SegmentFile
from streams_recovery.core.topic_settings import InForce

__all__ = [
    "ENCRYPTED_VERSION",
    "FORMAT_VERSION",
    "NAMES_VERSION",
    "CopiedRange",
    "CutProof",
    "Gap",
    "Manifest",
    "PartitionCut",
    "PartitionImage",
    "Provenance",
    "SegmentFile",
    "TopicImage",
]  # fmt: skip

FORMAT_VERSION: Final = 8
NAMES_VERSION: Final = 9
ENCRYPTED_VERSION: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAtCut:
    """A log at the cut. ``log_start``, ``last_stable`` and ``end`` are what the broker said then. ``end`` is the cut's end in it, exclusive."""

    log_start: int
    last_stable: int
    end: int
    leader_epoch: int | None
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut(LogAtCut):
    """One partition at the cut."""

    tp: TopicPartition

    @property
    def tail_start(self) -> int:
        """The start of the unread records of a repartition partition. Without a commit all records are unread."""
        return self.log_start if self.committed is None else self.committed.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage(LogAtCut):
    """One partition of a savepoint. ``ranges`` tile the archived part of the log in offset order; they are empty when the topic's records are not archived."""

    partition: int
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
        return self.ranges.facts.rows

    @property
    def archived_from(self) -> int:
        """The start of its first range; its end when it has none."""
        start = self.ranges.facts.start
        return self.end if start is None else start


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOfCut:
    """A topic at the cut, as every view of a savepoint tells of it. ``config`` has the overrides from before our hold was applied. ``archived`` tells whether
    its records are in the savepoint; an input that is not archived still has its committed offsets there.
    """

    name: str
    role: TopicRole
    store: StoreKind | None
    archived: bool
    replication_factor: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAtCut(TopicOfCut):
    """A topic at the cut. ``in_force`` are the settings in force on it then, from whatever source. ``evidence`` says why an internal topic was taken for the
    application's own, None if only for its name.
    """

    topic_id: str
    in_force: dict[str, InForce]
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage(TopicAtCut):
    """One topic of a savepoint. ``full_since`` is the capture time of the savepoint that last copied it from the start of its log. ``tables`` hold the
    ranges of its partitions, those of older savepoints first.
    """

    full_since: int
    partitions: tuple[PartitionImage, ...]
    tables: tuple[TableRef, ...] = field(default=(), compare=False)

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutProof:
    """The proof of the label. ``reasons`` name what stood against ``exact``; empty when the label is exact. ``assumptions`` are what an exact label takes for
    granted, because nothing that could be asked tells. ``past_end`` are partitions whose committed offset lay behind what their log had left of it.
    ``names`` is the proof of a cut by the names of transactions: then nothing stood still, and nothing had to.
    """

    mode: QuiesceMode
    committed_unchanged: bool
    stable_reached: bool
    still_between_reads: bool
    held_seconds: float
    attempts: int
    reasons: tuple[str, ...]
    assumptions: tuple[str, ...] = ()
    past_end: tuple[TopicPartition, ...] = ()
    names: NamedProof | None = field(default=None, metadata=codec.LEFT_OUT)

    @property
    def format_version(self) -> Literal[8, 9]:
        """The format of a manifest with this proof."""
        return FORMAT_VERSION if self.names is None else NAMES_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of a savepoint: who asked for it, why, and with which versions. ``compacted_from`` and ``merged_from`` are None for a savepoint that was taken
    from a cluster; a savepoint that was compacted first and merged then has both. ``intended`` are changes of state since the savepoint before that count as
    damage unless a person declared them as intended. ``deletions_kept_since`` names compacted topics that are the records of several savepoints, with the
    moment since which it is assumed that the cleaner has removed no deletion from them: see ``cut.deletions_kept``. ``rescaled_from`` is there for a savepoint
    whose records were placed anew, in other numbers of partitions.
    """

    run_id: str
    requested_by: str
    reason: str
    software: dict[str, str]
    compacted_from: CompactedFrom | None = None
    merged_from: MergedFrom | None = None
    intended: tuple[str, ...] = ()
    deletions_kept_since: dict[str, int] = field(default_factory=dict)
    rescaled_from: RescaledFrom | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """``captured_at`` is the moment of a cut in milliseconds, and the time of its savepoint."""

    captured_at: int
    consistency: Consistency


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFacts(Captured):
    """Facts of a cut besides its topics. ``claimed`` topics are not among its topics."""

    cluster_id: str
    proof: CutProof
    group_type: str
    claimed: tuple[ClaimedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(CutFacts):
    """A savepoint. ``parent_id`` names the savepoint whose files this one shares; None means it was copied in full.
    ``encryption_key_id`` is the newest data key of its segments, None when they are in clear. ``previous_sha256`` is reserved.
    """

    format_version: Literal[8, 9, 10]
    savepoint_id: str
    application_id: str
    guarantee: Guarantee
    parent_id: str | None
    topics: tuple[TopicImage, ...]
    provenance: Provenance
    previous_sha256: None = None
    encryption_key_id: str | None = None

    @property
    def version_it_has(self) -> Literal[8, 9, 10]:
        """The version of the format that what it has makes it."""
        return self.proof.format_version if self.encryption_key_id is None else ENCRYPTED_VERSION

    def with_key_named(self) -> Manifest:
        """The same with the newest data key of its files: those that no table holds yet, and those that it was made of."""
        new = (one.file.key for topic in self.topics for image in topic.partitions for one in image.ranges.new if one.file is not None)
        made = replace(self, encryption_key_id=newest_key(new, self.encryption_key_id))
        return replace(made, format_version=made.version_it_has)

    @property
    def unattributed(self) -> tuple[str, ...]:
        """Internal topics that may be another application's."""
        return tuple(topic.name for topic in self.topics if topic.role.internal and topic.evidence is None)

    @property
    def records(self) -> int:
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
    def taken_by_name(self) -> bool:
        """True for a savepoint that is never the newest one of anything: it was edited, is damaged, or has other partitions than the application had."""
        return self.consistency in (Consistency.EDITED, Consistency.DAMAGED) or self.provenance.rescaled_from is not None

    @property
    def replaces(self) -> str | None:
        """The savepoint of the same cut and state that this one was merged or compacted from and can stand for, None when there is none."""
        source = self.provenance.merged_from or self.provenance.compacted_from
        return source.savepoint_id if source is not None and source.proven else None

    def topic(self, name: str) -> TopicImage | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        """Committed offsets of every partition that had one at the cut."""
        return {tp: image.committed for tp, image in partition_images(self.topics).items() if image.committed is not None}

    def files(self) -> Iterator[tuple[TopicPartition, SegmentFile]]:
        for tp, image in partition_images(self.topics).items():
            for file in image.files():
                yield tp, file

    @property
    def file_count(self) -> int:
        return sum(image.ranges.facts.files for topic in self.topics for image in topic.partitions)

    def whole(self, sizes: Mapping[str, int]) -> bool:
        """True when every file it needs is among ``sizes`` (bytes by key) with its size."""
        pieces = (image.ranges for topic in self.topics for image in topic.partitions)
        return all(sizes.get(key) == size for ranges in pieces for key, size in ranges.sizes())


def partition_images(topics: Iterable[TopicImage]) -> dict[TopicPartition, PartitionImage]:
    """The images of all partitions of these topics."""
    return {TopicPartition(topic.name, image.partition): image for topic in topics for image in topic.partitions}
