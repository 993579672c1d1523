"""What the monitor has seen of one application at one moment: plain values, for rules to judge. Moments are milliseconds, lengths of time seconds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from streams_recovery.core.kafka_types import GroupDescription, TopicPartition
from streams_recovery.core.repository.announcement import DeletionOutlook
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.repository.seal import ForgedRecord
from streams_recovery.core.status.recovery_point import ArchiveStatus
from streams_recovery.core.status.report import DiskStatus, HistoryPoint, Part, SavepointSummary, SitesStatus, TopicStatus

# How the name of a broker's disk begins.
BROKER: Final = "broker "


class PartName(enum.StrEnum):
    """What is looked at by itself, so that one that does not answer takes nothing from the others."""

    REPOSITORY = "repository"
    CLUSTER = "cluster"
    DISKS = "disks"
    APPLICATION = "application"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRun:
    """The newest run that began a savepoint. ``over`` unless it still has the lock; ``savepoint_id`` is what it published, None when it did not."""

    run: str
    began_at: int
    over: bool
    savepoint_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """Who has the application's lock, and since when. ``unreadable`` is the key of a newest record that is none, empty else."""

    owner: str
    purpose: str
    since: int
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreState:
    """A restore that is not over. ``running`` while a run has the lock; ``destroyed`` when it began to replace internal topics. ``problem`` says why its
    journal cannot be read, empty when it can.
    """

    restore_id: str
    began_at: int
    phase: str
    running: bool
    destroyed: bool
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckState:
    """The newest check of the repository. ``causes`` are why it is not good, and ``savepoints`` those that it found not to be whole."""

    check_id: str
    at: int
    causes: tuple[str, ...]
    savepoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillState:
    """The newest drill."""

    run: str
    began_at: int
    succeeded: bool
    outcome: str
    rpo_seconds: float | None
    rto_seconds: float | None
    loss_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineState:
    """Later input that a restore has set aside and that was not appended again."""

    restore_id: str
    savepoint_id: str
    since: int
    records: int
    begun: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldState:
    """Topics whose settings one run holds. ``of_restore`` holds may stay until nothing restored would expire."""

    run: str
    of_restore: bool
    since: int
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuiesceState:
    """Instances that a run has paused or stopped and not brought back."""

    run: str
    mode: str
    since: int
    instances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipState:
    """Who writes the outputs, by the log of the application and that of the ``other`` one that it transferred them to or from. ``theirs`` is None when
    that log is empty. ``problem`` says why one of the two cannot be read, empty when both can. Without any entry there is no such state.
    """

    role: Role
    clone: bool
    other: str
    theirs: Role | None
    theirs_towards: str
    run: str
    since: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFacts:
    """What the repository says. ``damaged`` are savepoints that cannot be read; ``lost_with_cluster`` is why the newest exact savepoint is not enough
    when the cluster is lost. ``deletion`` is what runs of the expiry's schedule do, None when its announcement cannot be read: a check tells of that.
    ``leaving`` are savepoints whose pin was released, each with the moment (ms) from which on that counts. ``ahead`` are
    ids of savepoints and restores that have a time that has not come, or say that they are of one.
    ``ownership`` is None for an application that no clone ever replaced. ``sealed`` is true where
    records are believed by their seals; then ``forged`` are those that were not used, and ``forged_count`` says how many, because not all are named.
    ``archive`` is None where nothing was ever archived continuously.
    """

    newest: SavepointSummary | None
    newest_exact: SavepointSummary | None
    damaged: tuple[str, ...]
    lost_with_cluster: tuple[str, ...]
    last_run: SavepointRun | None
    lock: LockState | None
    restores: tuple[RestoreState, ...]
    check: CheckState | None
    drill: DrillState | None
    quarantines: tuple[QuarantineState, ...]
    holds: tuple[HoldState, ...]
    quiesce: QuiesceState | None
    deletion: DeletionOutlook | None
    leaving: dict[str, int] = field(default_factory=dict)
    ahead: tuple[str, ...] = ()
    ownership: OwnershipState | None = None
    sealed: bool = False
    forged: tuple[ForgedRecord, ...] = ()
    forged_count: int = 0
    archive: ArchiveStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """One input topic. ``needed_since`` is the time of the first record that the application, or a restore of the newest exact savepoint, needs and that
    neither a savepoint nor the archive has, None when there is none or nothing is known of it; ``retention_seconds`` None when it deletes nothing by time.
    ``lost`` records are gone although the newest exact savepoint needs them or nobody has archived them; ``unread`` ones are gone although the application has
    not read them. ``since_savepoint`` is how far the application would be behind with that savepoint.
    """

    topic: str
    retention_seconds: float | None
    needed_since: int | None
    lost: int
    unread: int
    since_savepoint: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transaction that holds back a partition. ``transactional_id`` is None when no coordinator knows it: it hangs for good."""

    tp: TopicPartition
    start_offset: int
    transactional_id: str | None
    age_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster says. ``all_archived``: there was no record of an input or global, at a moment of this look, that the archive did not have. ``missing``
    topics are declared, or in the newest exact savepoint, and not there. ``unattributed`` internal topics may be another application's. ``refused`` is why a
    restore of the newest exact savepoint would be refused now.
    """

    bootstrap_servers: str
    group: GroupDescription
    topics: tuple[TopicStatus, ...]
    missing: tuple[str, ...]
    inputs: tuple[InputState, ...]
    transactions: tuple[TransactionState, ...]
    unattributed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    all_archived: bool = False

    @property
    def lag(self) -> int:
        """Offsets of all inputs that the application is behind."""
        return sum(topic.lag or 0 for topic in self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """Disks that this application fills, and the bytes of its topics on the brokers' disks, replicas included, by topic. Without ``brokers_seen`` both lack
    what is on the brokers' disks: nothing is known of them.
    """

    disks: tuple[DiskStatus, ...]
    topic_bytes: dict[str, int]
    brokers_seen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """One instance: ``running``, ``gone`` or ``unknown``, and the state of Kafka Streams where it answers."""

    name: str
    state: str
    streams_state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """Seconds between two runs at most, None where there is no schedule. ``runs`` are those of an application that is down in between."""

    savepoints: float | None
    checks: float | None
    drills: float | None
    runs: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedApplication:
    """One look. A part that could not be looked at is None. ``newest_exact`` and ``newest`` are the last that are known. ``history`` has this look as its
    last point. ``promised`` is ``backup.survive_cluster_loss``, and ``known_since`` the moment of the first look. ``used_before`` is true when an earlier
    look saw the application in use. ``archiving`` is ``archive.enabled``.
    """

    name: str
    application_id: str
    now: int
    promised: bool
    known_since: int
    used_before: bool
    schedules: Schedules
    parts: dict[str, Part]
    newest: SavepointSummary | None
    newest_exact: SavepointSummary | None
    repository: RepositoryFacts | None
    cluster: ClusterFacts | None
    disks: DiskFacts | None
    application: tuple[InstanceFacts, ...] | None
    history: tuple[HistoryPoint, ...]
    sites: SitesStatus = field(default_factory=SitesStatus)
    archiving: bool = False

    def age(self, moment: int) -> float:
        """Seconds since a moment. Clocks of two machines: one that seems to lie ahead is now."""
        return max(0.0, (self.now - moment) / 1000)
