"""Values that the steps of a savepoint hand to each other. Small values travel through the orchestrator; the cut itself is a note in the repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streams_recovery.core import codec
from streams_recovery.core.archive.log import ArchivedLog
from streams_recovery.core.jobs.spec import RangeCopied, RangeLost
from streams_recovery.core.kafka_types import Consistency, QuiesceMode, TopicPartition
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.manifest import CutFacts, PartitionCut, TopicAtCut
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.repository.publication import SavepointFacts
from streams_recovery.core.repository.survival import survives_text
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint.chain import PartitionCopy
from streams_recovery.core.savepoint.request import SavepointRequest
from streams_recovery.core.words import count, span

# The notes that the copy leaves.
PLAN, SPEC, RESULT, COPIED = "copy-plan", "backup-spec", "backup-result", "copied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A savepoint in the making. ``lock`` proves whose turn it is; ``running`` are the instances to bring back after the hold, in the present ``role`` of the
    application. ``fallback`` is how the application is held after all when mode ``live`` gave no exact cut, None for not at all. ``safety`` marks a savepoint
    of the state that a restore is about to replace; ``expected`` are the topics it should find then. ``mark`` is its own on the compaction guards. ``site`` is
    where it was begun, and where all of its steps are taken.
    """

    application_id: str
    savepoint_id: str
    request: SavepointRequest
    mode: QuiesceMode
    fallback: QuiesceMode | None
    lock: LockTicket
    mark: int
    started_at: int
    running: tuple[str, ...]
    safety: bool
    expected: tuple[str, ...]
    site: str | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiesced:
    """The application as it is held for one savepoint. ``members`` are the group's member ids, to be found unchanged after the cut. ``still`` is True when the
    hold was proven, else ``why_not`` says what is missing. ``assumed`` says in sentences what that proof takes for granted. ``unknown`` is True for one
    that was left running because the configuration asks for ``ahead`` where the group has members that no known instance accounts for.
    """

    savepoint_id: str
    mode: QuiesceMode
    since: int
    members: tuple[str, ...]
    still: bool
    why_not: str
    assumed: tuple[str, ...]
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTopic(TopicAtCut):
    """A topic of a cut that is not published yet."""

    partitions: tuple[PartitionCut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutDraft(CutFacts):
    """A proven cut with the repartition tails that were copied while it was held. ``assumed``: see ``Quiesced``."""

    topics: tuple[DraftTopic, ...]
    tails: tuple[RangeCopied, ...]
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSummary:
    """A cut in numbers. ``tail_records`` were copied already; ``draft`` is the cut itself. ``left_out`` records are not in a cut by the names of transactions;
    None for any other cut.
    """

    savepoint_id: str
    consistency: Consistency
    reasons: tuple[str, ...]
    partitions: int
    tail_records: int
    held_seconds: float
    attempts: int
    draft: ArtifactRef
    left_out: int | None = field(default=None, metadata=codec.LEFT_OUT)

    @property
    def text(self) -> str:
        """How it was read, and how good it is."""
        named = "" if self.left_out is None else f", read by the names of transactions ({self.left_out:,} records of others left out)"
        return f"{self.consistency} over {self.partitions} partitions, application held {span(self.held_seconds)}{named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeReport:
    """The application after the hold: the instances that work again."""

    mode: QuiesceMode
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition(PartitionCopy):
    """The copy of one partition. ``archived`` is the log that the continuous archive has behind the parent, which is not copied again; None if no archived log
    goes on there.
    """

    tp: TopicPartition
    archived: ArchivedLog | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The copy of a whole cut, tails left out: they are done. ``begun_anew`` has sentences on inputs, outputs and globals whose archive begins anew, and on a
    savepoint whose keys are gone. ``damage`` are signs that the state was lost or replaced, ``intended`` such changes that a person declared as intended.
    ``not_whole`` is the newest savepoint when it lacks files, so that nothing could be shared with it.
    """

    parent_id: str | None
    partitions: tuple[PlannedPartition, ...]
    begun_anew: tuple[str, ...]
    damage: tuple[str, ...] = ()
    intended: tuple[str, ...] = ()
    not_whole: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCopy:
    """The plan of a copy with what it belongs to: the cut ``draft``, the ``spec`` of the job if there is one, and the offsets of other ``groups`` if any
    are kept.
    """

    draft: ArtifactRef
    plan: CopyPlan
    spec: ArtifactRef | None
    groups: ArtifactRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Every range that was copied for a savepoint, checked against the plan ``planned``, and those that were deleted before. ``noticed`` is what changed
    on the cluster meanwhile without harm.
    """

    planned: ArtifactRef
    ranges: tuple[RangeCopied, ...]
    lost: tuple[RangeLost, ...]
    noticed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherSummary:
    """A copy in numbers. ``fetched`` counts records received by the consumers' own statistics, ``lost`` offsets of inputs and outputs that were deleted before
    they could be read. ``copied`` is the whole of it.
    """

    files_checked: int
    rows: int
    fetched: int
    shared_files: int
    lost: int
    copied: ArtifactRef


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSavepoint(SavepointFacts):
    """A published savepoint in numbers. ``fetched`` counts records its consumers received, ``tail_records`` those from unread repartition topics.
    ``warnings`` are sentences for the person who relies on it.
    """

    manifest_key: str
    new_records: int
    fetched: int
    tail_records: int
    topics: int
    warnings: tuple[str, ...]

    def text(self, unsaved: Sequence[str]) -> str:
        """The savepoint in a line. ``unsaved`` are outputs whose records savepoints do not have."""
        survives = survives_text(survives=self.survives_cluster_loss, unsaved=unsaved)
        return (
            f"savepoint {self.savepoint_id}: {self.consistency}, {count(self.records)} records, {count(self.new_records)} new; survives the loss of the "
            f"cluster: {survives}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReport:
    """The settings that were put back. ``still_held`` names topics whose settings could not be released and why; the next run tries again. ``removed`` counts
    the segments of a savepoint that was not published.
    """

    released: tuple[str, ...]
    still_held: tuple[str, ...]
    lock_released: bool
    removed: int = 0
