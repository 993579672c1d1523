"""What every plan of a restore has: the topics that are made and deleted, the offsets that are set, and the facts that were seen.

What only one kind of restore has is in ``parts``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from streams_recovery.core.jobs.spec import RowCut
from streams_recovery.core.kafka_types import ClaimedTopic, CommittedOffset, Consistency, Evidence, TopicPartition, TopicRole
from streams_recovery.core.repository.checked import check_names, check_partitions, check_segment_key
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.estimate import Estimate, Sizes
from streams_recovery.core.restore.point_in_time import LaterTopic
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.restore.single_topics import OtherReader


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """Files to write to one partition, in this order; with a ``cut`` only the rows that it takes. ``compacted`` ones are the same state, not the same log."""

    partition: int
    files: SegmentFiles
    cut: RowCut | None = None
    compacted: bool = False

    @property
    def rows(self) -> int:
        """Records to write."""
        return self.files.rows if self.cut is None else self.cut.rows

    @property
    def payload_bytes(self) -> int:
        """Bytes of their keys and values; of a cut file the part that its rows are of all."""
        return self.files.payload_bytes * self.rows // max(1, self.files.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToCreate:
    """A topic to create and load. It is created with ``held_config`` and gets ``final_config`` once nothing would expire by it.
    ``replaces`` is the id of an existing topic that is deleted first, None when there is none.
    """

    name: str
    role: TopicRole
    replication_factor: int
    held_config: dict[str, str]
    final_config: dict[str, str]
    replaces: str | None
    partitions: tuple[PartitionLoad, ...]

    @property
    def rows(self) -> int:
        """Records to write."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def payload_bytes(self) -> int:
        """Bytes of keys and values to write."""
        return sum(partition.payload_bytes for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToDelete:
    """An internal topic that the savepoint does not know: left in place, the application would take up what is in it."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToSet:
    """A committed offset to set. One that is not ``fixed`` is where a moving log was when it was looked at: approving the
    plan approves the rule, and the number may be another one when it is set.
    """

    tp: TopicPartition
    wanted: CommittedOffset
    fixed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Facts that were seen while planning and may change until the plan is carried out."""

    # Those that run.
    instances: tuple[str, ...]
    # How many offsets each topic spans that will be replaced.
    offsets_replaced: dict[str, int]
    # What the group has committed on the partitions that are set.
    offsets_before: dict[TopicPartition, int]
    # How far the inputs reach beyond the savepoint.
    records_to_catch_up: int
    # How long it is expected to take.
    estimate: Estimate | None = None
    # Other readers of single topics that are brought back.
    readers: tuple[OtherReader, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInput:
    """``records`` of inputs and globals that were archived behind the savepoint, in the entries of the archive up to ``entry``: all that was committed by the
    moment ``safe_at``.
    """

    entry: int
    safe_at: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedState:
    """The state is that of an exact cut that an archiver took behind the savepoint, at the moment ``at``, in the entries of the archive up to ``entry``."""

    entry: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFacts:
    """The state that a restore brings back."""

    application_id: str
    # The application that the savepoint is of: another one for a clone.
    source_application_id: str
    # None where no state is loaded: the application builds it again, or goes on with what is there.
    savepoint_id: str | None
    captured_at: int | None
    consistency: Consistency | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRestore(RestoreFacts, ABC):
    """What is done in any restore, whatever its kind."""

    safety: SafetyPolicy
    # Internal topics that the savepoint does not know; in a rebuild, all of them.
    delete: tuple[TopicToDelete, ...]
    # At the other site, if the application moves.
    create: tuple[TopicToCreate, ...]
    offsets: tuple[OffsetToSet, ...]
    # How the inputs' offsets were chosen, as it was asked for.
    strategy: str
    # False if the restored state ends elsewhere than these offsets.
    offsets_agree: bool
    warnings: tuple[str, ...]
    observed: Observed
    # Topics that could be the application's by their names, and belong to another one: they stay as they are.
    claimed: tuple[ClaimedTopic, ...] = ()
    # Why each internal topic that goes is taken for the application's own.
    evidence: dict[str, Evidence] = field(default_factory=dict)
    # Inputs whose committed offsets the restore does not touch, whatever they are by then.
    offsets_kept: tuple[TopicPartition, ...] = ()
    # The command that is run before the start, empty where none is configured.
    deploy: tuple[str, ...] = ()

    @property
    @abstractmethod
    def hash(self) -> str:
        """Identifies what the plan does; equal plans have equal hashes wherever they were made."""

    @property
    def rows(self) -> int:
        """Records to write, all topics together."""
        return sum(topic.rows for topic in self.create)

    @property
    def sizes(self) -> Sizes:
        """The sizes of what is moved."""
        return Sizes(
            records=self.rows,
            payload_bytes=sum(topic.payload_bytes for topic in self.create),
            partitions=sum(len(topic.partitions) for topic in self.create),
            replaced=sum(self.observed.offsets_replaced.values()),
            to_catch_up=self.observed.records_to_catch_up,
        )

    @property
    def strategy_text(self) -> str:
        """Text for the evidence: how the inputs' offsets were chosen, and which inputs kept theirs."""
        kept = sorted({tp.topic for tp in self.offsets_kept})
        return f"{self.strategy}; kept: {', '.join(kept)}" if kept else self.strategy

    @property
    def from_input(self) -> bool:
        """True when no state is loaded."""
        return self.savepoint_id is None


def check_later(later: Sequence[LaterTopic], *, application_id: str, where: str) -> None:
    """Raise ``Damaged`` for a name that is not on the allow-list, a topic or partition that is there twice, and a file of another application. ``later`` are
    records that were removed from the application's inputs and are appended to them again.
    """
    check_names("topic", [topic.name for topic in later], where=where)
    check_partitions("records", [TopicPartition(topic.name, part.partition) for topic in later for part in topic.partitions], where=where)
    check_files(later, application_id, where)


def check_files(topics: Sequence[TopicToCreate] | Sequence[LaterTopic], application_id: str, where: str, *, also: str = "") -> None:
    """Raise ``Damaged`` for a file that does not belong to the application, nor to the one that is given ``also``."""
    for topic in topics:
        for part in topic.partitions:
            for key in part.files.keys:
                whose = also if also and key.startswith(f"{also}/") else application_id
                check_segment_key(key, whose, TopicPartition(topic.name, part.partition), where=where)
