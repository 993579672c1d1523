"""The status of one application as the monitor saw it: all that pages, alerts and the command line show, in one object.

Whoever shows it reads this object and asks nobody else: no broker, no manifest, no Spark. It says when each part was looked at, because a part that could
not be looked at keeps the values of the last time, and the reason.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.publication import SavepointFacts
from streams_recovery.core.repository.seal import ForgedRecord
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.restore.point_in_time import Moments
from streams_recovery.core.status.finding import StatusFinding
from streams_recovery.core.status.recovery_point import ArchiveStatus, recovery_point


class Health(enum.StrEnum):
    """The worst of what was found. ``unknown``: nothing was ever looked at. ``unused``: nothing of the application exists, and none of it is expected."""

    GOOD = "good"
    ATTENTION = "attention"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"
    UNUSED = "unused"


class RunKind(enum.StrEnum):
    """What a run of the past did."""

    RESTORE = "restore"
    DRILL = "drill"
    REPROCESS = "reprocess"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSummary(SavepointFacts):
    """One savepoint in a list or on a timeline. ``new_bytes`` are those of segments that were stored since the savepoint before it. ``held_seconds`` is how
    long the application was held and ``seconds`` how long it took from the cut on, None where that is not known. ``expires`` is true when no rule of
    retention keeps it, ``leaves_at`` (ms) is when the release of a pin counts, None when none waits for that. ``input_positions`` are up to where each
    input was processed, as the sum of its committed offsets (``SavepointDetail.input_positions``), None where nobody looked: with them the page can say
    how many records lie between two savepoints. ``adopted`` is true for one without a seal that a person vouched for. ``moments`` it can be restored to,
    None where nobody looked.
    """

    new_bytes: int | None
    held_seconds: float | None
    seconds: float | None
    pinned: bool
    expires: bool
    input_positions: dict[str, int] | None = None
    leaves_at: int | None = None
    adopted: bool = False
    moments: Moments | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run. ``run`` is its run id in Airflow or on the command line, ``restore_id`` is None where it is no restore. ``ended_at`` is None while it is
    not over: ``running``, or a restore that failed and may be resumed.
    """

    kind: RunKind
    run: str
    restore_id: str | None
    savepoint_id: str | None
    began_at: int
    ended_at: int | None
    succeeded: bool | None
    outcome: str
    rpo_seconds: float | None
    rto_seconds: float | None
    running: bool = False

    @property
    def unfinished(self) -> bool:
        """True for a restore that nobody works on and that was not closed."""
        return self.ended_at is None and not self.running

    @property
    def failed(self) -> bool:
        """True when it did not reach its end, or a wrong one."""
        return not self.running and (self.succeeded is False or self.unfinished)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic of the application. ``disk_bytes`` are on the disks of all brokers, replicas included, None when that may not be asked. ``records`` spans
    offsets from the start to the end of the logs. ``lag`` is how many offsets the application is behind (``core.lag``), of inputs only.
    """

    name: str
    role: TopicRole
    partitions: int
    records: int
    disk_bytes: int | None
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskStatus:
    """One file system that this application fills: ``name`` is ``repository``, ``broker <id> <directory>`` or ``state <instance>``."""

    name: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """Values at one moment, for curves. None where it was not measured. ``free_bytes`` are those of disks, by their names. ``loss_seconds`` is the age of the
    recovery point.
    """

    at: int
    changelog_bytes: int | None
    state_bytes: int | None
    repository_bytes: int | None
    lag: int | None
    newest_age_seconds: float | None
    free_bytes: dict[str, int] = field(default_factory=dict)
    repartition_bytes: int | None = None
    loss_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """When a part of the status was last looked at with success, None when it never was. ``problem`` says why the newest look failed, None when it did
    not.
    """

    looked_at: int | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What was promised, from the configuration. Seconds; None where nothing was."""

    newest_age_seconds: float | None
    recovery_seconds: float | None
    loss_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedSite:
    """A site that was left ``since`` (ms), by ``run``, without a proof that nothing runs there. ``running`` is what was seen there at the last look of the
    monitor, and ``problem`` says why it is still fenced, None before the first look.
    """

    site: str
    since: int
    run: str
    running: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbySite:
    """A site that the application does not belong to, as it was at ``looked_at`` (ms). ``lacks`` is what would block a failover there, ``warnings`` what would
    weaken it, ``problem`` why it could not be looked at, None when it could.
    """

    site: str
    looked_at: int
    lacks: tuple[str, ...]
    warnings: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesStatus:
    """Where the application belongs, and which others there are. ``moving_to`` is the site that a failover that is not over moves it to, None without one:
    from when topics are replaced there, that is ``belongs`` as well. ``standbys`` are those that were looked at.
    """

    belongs: str = PRIMARY
    moving_to: str | None = None
    fences: tuple[FencedSite, ...] = ()
    standbys: tuple[StandbySite, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport:
    """``taken_at`` is when it was made, and ``monitored_at`` when the monitor looked at everything, None when it has not yet: a run that changes the
    repository makes what that says anew, and leaves the rest as it is known. ``parts`` are ``repository``, ``cluster``, ``disks`` and ``application``.
    ``savepoints`` are the newest ones, oldest first, at most some thousands, ``savepoint_count`` of all. ``estimate`` is how long a restore of the newest
    exact savepoint would take. ``history`` has points that get rarer the
    older they are. ``used`` is true when this look, or an earlier one, saw the application in use. ``fresh_seconds`` is how long a look of the monitor says
    something of the present, None where looks have no schedule. ``forged`` are records that were not used, the first ones by key, ``forged_count`` of all.
    ``archive`` is None where nothing was ever archived continuously.
    """

    name: str
    application_id: str
    taken_at: int
    health: Health
    parts: dict[str, Part]
    objectives: Objectives
    findings: tuple[StatusFinding, ...]
    advice: tuple[StatusFinding, ...]
    newest: SavepointSummary | None
    newest_exact: SavepointSummary | None
    savepoint_count: int
    savepoints: tuple[SavepointSummary, ...]
    estimate: Estimate | None
    repository_bytes: int | None
    topics: tuple[TopicStatus, ...]
    runs: tuple[RunSummary, ...]
    history: tuple[HistoryPoint, ...]
    next_savepoint_at: int | None
    disks: tuple[DiskStatus, ...] = ()
    used: bool = False
    fresh_seconds: float | None = 900.0
    monitored_at: int | None = None
    forged: tuple[ForgedRecord, ...] = ()
    forged_count: int = 0
    sites: SitesStatus = SitesStatus()
    archive: ArchiveStatus | None = None

    @property
    def recovery_point(self) -> int | None:
        """Up to which moment (ms) input would be there if the cluster were lost now, None where nothing would bring it back."""
        return recovery_point(self.newest_exact, self.archive)

    @property
    def loss_seconds(self) -> float | None:
        """How old the recovery point was when the report was made."""
        point = self.recovery_point
        return None if point is None else max(0.0, (self.taken_at - point) / 1000)
