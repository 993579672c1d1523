"""Values that the steps of a restore hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from streams_recovery.application.port import StateSince
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.restore.proofs import PartitionProof, QueryCheck
from streams_recovery.core.rollout.compatibility import CompatibilityVerdict
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.restore.strategies import RestoreRequest
from streams_recovery.operations.savepoint.values import Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderLock:
    """A restore, or an append of input that it set aside, under the lock of the application. ``plan`` is where the approved plan is stored."""

    application_id: str
    restore_id: str
    requested_by: str
    plan: ArtifactRef
    lock: LockTicket


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTicket(UnderLock):
    """A restore under way. ``plan_hash`` is that of its plan; ``running`` are the instances that ran when it was
    opened; ``after_unfinished`` is an earlier restore that failed after it had begun to destroy, and that this one takes over from. ``before`` is the site that
    the application leaves, None if it stays at its site. ``here`` is the site at which it was opened and all of its steps are taken, and ``cluster_id`` its
    cluster; None in tickets from before these were kept.
    """

    request: RestoreRequest
    plan_hash: str
    started_at: int
    running: tuple[str, ...]
    after_unfinished: str | None
    before: str | None = None
    here: str | None = None
    cluster_id: str | None = None

    @property
    def site(self) -> str | None:
        """The site that its steps are taken at: the record of sites may be another one in the middle of it, and is data."""
        return self.request.site or self.here


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """Why a restore that is half way is not to be resumed, and what to do in place of that."""

    reason: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSummary:
    """The application, proven down; but for what is ``unproven`` at a site that was left on a person's word."""

    instances: tuple[str, ...]
    closed_cleanly: bool
    unproven: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedSummary:
    """The site that the application belongs to by now, the site ``before`` that it left, and the ``fenced`` sites."""

    site: str
    before: str
    fenced: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyBegun:
    """A safety savepoint whose cut is read, and the job that copies it; or ``none_because`` there is nothing to copy."""

    ticket: Ticket | None
    job: JobPlan
    none_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetySummary:
    """The way back: the safety savepoint that was published, or ``none_because`` there is none."""

    savepoint_id: str | None
    consistency: Consistency | None
    records: int
    none_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSummary:
    """Topics created, empty and under hold. ``replaced`` were deleted first: ones with records, empty ones, partial ones of an earlier attempt."""

    created: tuple[str, ...]
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """The records that are in the topics. ``present`` of the rows had been written by an attempt that failed; ``workers`` are the Spark executors that wrote.
    ``result`` is what the job left, checked against plan and logs; None when there was nothing to load.
    """

    topics: int
    partitions: int
    rows: int
    present: int
    workers: tuple[str, ...]
    result: ArtifactRef | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifySummary:
    """A proof for each partition: a difference is an error, not a summary. ``keys_compared`` counts those that were looked at one by one."""

    partitions: tuple[PartitionProof, ...]
    rows_compared: int
    keys_compared: int


def verify_summary(proofs: tuple[PartitionProof, ...]) -> VerifySummary:
    """The summary of these proofs."""
    return VerifySummary(
        partitions=proofs, rows_compared=sum(one.rows for one in proofs), keys_compared=sum(one.keys_compared or 0 for one in proofs)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedSummary:
    """Internal topics proven gone before a rebuild begins."""

    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsSummary:
    """Committed offsets as they were set and read back. ``removed`` offsets were on topics that are gone; ``groups`` are other groups that were moved too."""

    partitions: int
    with_metadata: int
    removed: int = 0
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WipeSummary:
    """Local state removed."""

    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSummary:
    """The application started again. ``ends`` are the input ends to catch up to, read right before the start."""

    instances: tuple[str, ...]
    ends: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSummary:
    """The application at work again: RUNNING everywhere, and every input processed to the end it had at the start. ``seconds`` is the whole time of the
    restore until then, as the log of restores and an estimate have it. ``local_state`` is what was seen of its age, None if none was removed.
    """

    instances: tuple[str, ...]
    partitions_caught_up: int
    seconds: float
    query_checks: tuple[QueryCheck, ...]
    local_state: StateSince | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsSummary:
    """The application stopped at the ends of its input: so many partitions, inputs and repartition topics, were read to their ends."""

    partitions: int
    closed_cleanly: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecked:
    """A new version compared with the savepoint of the state that it goes on with, and the local state that was ``removed`` for it."""

    savepoint_id: str
    verdict: CompatibilityVerdict
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonReport:
    """The end of a restore that did not finish, what to do next, and the commands for that."""

    phase: str
    restarted: bool
    next_step: str
    commands: tuple[str, ...]
