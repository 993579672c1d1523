"""The status of one application as the monitor saw it, in one object: all that pages, alerts and the command line show.

Whatever shows a status reads this object only: no broker, no manifest, no Spark. Each part says when it was looked at. A part that could not be looked at keeps
its last values, with the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from streams_recovery.core import codec
from streams_recovery.core.archive.log import Archive, Extended
from streams_recovery.core.archive.tick import is_at_work
from streams_recovery.core.checks.check import CheckPlace, Found, Occasion, Severity
from streams_recovery.core.kafka_types import Consistency, Profile, TopicRole
from streams_recovery.core.repository.encryption import EncryptionState
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.mirror import SecondPlace
from streams_recovery.core.repository.publication import SavepointFacts
from streams_recovery.core.repository.seal import ForgedRecord
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS, Moments

# Partitions that are named.
_NAMED: Final = 10
One = TypeVar("One", bound=SavepointFacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatus:
    """The continuous archive behind the newest exact savepoint. ``working``: an archiver has written an entry lately, the last one at ``said_at`` (ms), None
    before the first. All that was committed by ``safe_at`` (ms) would be there after a loss of the cluster; None if the archive adds nothing to the savepoint.
    ``waiting`` records were not archived when it was last looked. Partitions that are ``left`` do not go on behind the savepoint, the first ones with the
    reason, ``left_count`` of all. ``lost`` offsets were gone before they could be archived. ``problem`` says why the archive cannot be used, empty when it can.
    ``state_at`` (ms) is the newest exact cut behind the savepoint, from which a restore begins; None if there is no such cut, and ``looks`` are the moments of
    all that a restore to a moment may begin from. ``elsewhere`` is the cluster of
    an archiver that has said something lately, and that is not the savepoint's: it archives nothing that the savepoint could go on with.
    """

    working: bool
    said_at: int | None
    safe_at: int | None
    waiting: int
    files: int
    left: tuple[str, ...] = ()
    left_count: int = 0
    lost: int = 0
    problem: str = ""
    state_at: int | None = None
    elsewhere: str = ""
    looks: tuple[int, ...] | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFinding:
    """One finding. ``kind`` is a word that scripts compare, and names its section in docs/runbooks or docs/alerts.md. ``subject`` is what it is about, such
    as a topic, empty for the application itself: kind and subject together are the cause, of which people hear once. ``remedies`` are commands, complete
    and ready to copy, of this software or of Kafka. ``numbers`` are the measured values and limits in plain units (seconds, bytes, records).
    ``runbook`` is the section about it, below docs/ until ``with_docs_at``.
    """

    kind: str
    severity: Severity
    subject: str
    text: str
    remedies: tuple[str, ...]
    runbook: str
    numbers: dict[str, float]

    @staticmethod
    def of(place: CheckPlace, found: Found) -> StatusFinding:
        """The answer of a check as a finding of the monitor, or as advice, with what to do behind it."""
        advised = place.asked is Occasion.ADVICE
        words = [f"{found.topic} {found.text}" if found.topic else found.text]
        if found.remedy is not None and found.remedy.text:
            words.append(found.remedy.sentence)
        text = ". ".join(words)
        return StatusFinding(
            kind=place.kind,
            severity=found.severity,
            subject=found.topic or found.subject,
            text=f"{text[:1].upper() if not found.topic else text[:1]}{text[1:]}." if advised else text,
            remedies=(*(() if found.remedy is None else found.remedy.commands), *found.commands),
            runbook=f"{'advisor' if advised else 'alerts'}.md#{place.kind}",
            numbers=dict(found.numbers),
        )

    @property
    def cause(self) -> str:
        """Identifies the cause, for as long as it lasts."""
        return f"{self.kind}:{self.subject}" if self.subject else self.kind

    def with_docs_at(self, docs: str) -> StatusFinding:
        """The finding with the whole address of its section. ``docs`` is where docs/ can be read."""
        return replace(self, runbook=f"{docs.rstrip('/')}/{self.runbook}")


class Health(enum.StrEnum):
    """The worst of what was found. ``unknown``: nothing was ever looked at. ``unused``: nothing of the application exists, and none of it is expected."""

    GOOD = "good"
    ATTENTION = "attention"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"
    UNUSED = "unused"


class RunKind(enum.StrEnum):
    """Kind of a run of the past."""

    RESTORE = "restore"
    DRILL = "drill"
    REPROCESS = "reprocess"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointSummary(SavepointFacts):
    """One savepoint in a list or on a timeline. ``new_bytes`` are those of segments that were stored since the savepoint before it. ``held_seconds`` is how
    long the application was held and ``seconds`` how long it took from the cut on, None if that is not known. ``expires`` is true when no rule of
    retention keeps it, ``leaves_at`` (ms) is when the release of a pin counts, None if no release waits. ``input_positions`` are up to where each
    input was processed, as the sum of its committed offsets (``SavepointDetail.input_positions``), None if they were not read: with them the page can say
    how many records lie between two savepoints. ``adopted`` is true for one without a seal that a person vouched for. It can be restored to ``moments``, None
    if they were not read.
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
    """One run. ``run`` is its run id in Airflow or on the command line, ``restore_id`` is None if it is no restore. ``ended_at`` is None while it is
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
        """True for a restore that no run works on and that was not closed."""
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
    """Values at one moment, for curves. A value is None if it was not measured. ``free_bytes`` are those of disks, by their names. ``loss_seconds`` is the age
    of the recovery point. ``committed`` is the sum of the committed offsets of inputs.
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
    committed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the status. ``looked_at`` (ms) is the last look that succeeded, None when none did. ``problem`` says why the newest look failed, None when it
    did not.
    """

    looked_at: int | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """Promises of the configuration in seconds. A promise that is not made is None."""

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
    """A site that the application does not belong to, as it was at ``looked_at`` (ms). ``lacks`` would block a failover there, ``warnings`` would weaken it.
    ``problem`` says why the site could not be looked at, None when it could.
    """

    site: str
    looked_at: int
    lacks: tuple[str, ...]
    warnings: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesStatus:
    """The site that the application belongs to, and the others. ``moving_to`` is the site that an unfinished failover moves it to, None without one. From when
    topics are replaced there, that is ``belongs`` as well. ``standbys`` are those that were looked at.
    """

    belongs: str = PRIMARY
    moving_to: str | None = None
    fences: tuple[FencedSite, ...] = ()
    standbys: tuple[StandbySite, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryOutline:
    """What every view of a repository tells. ``forged`` are records that were not used, the first ones by key, ``forged_count`` of all. ``archive`` is None
    where nothing was ever archived continuously, ``second_place`` without one, and ``encryption`` where records are in clear.
    """

    forged: tuple[ForgedRecord, ...] = ()
    forged_count: int = 0
    archive: ArchiveStatus | None = None
    second_place: SecondPlace | None = field(default=None, metadata=codec.LEFT_OUT)
    encryption: EncryptionState | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance(RepositoryOutline):
    """What is told of an application at a glance. ``savepoint_way`` says how a savepoint would be taken, as a sentence; None if nobody has looked."""

    name: str
    application_id: str
    health: Health
    findings: tuple[StatusFinding, ...]
    repository_bytes: int | None
    sites: SitesStatus = SitesStatus()
    savepoint_way: str | None = field(default=None, metadata=codec.LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReport(Glance):
    """``taken_at`` is when it was made, and ``monitored_at`` when the monitor looked at everything, None when it has not yet: a run that changes the
    repository makes what that says anew, and leaves the rest as it is known. ``parts`` are ``repository``, ``cluster``, ``disks`` and ``application``.
    ``savepoints`` are the newest ones, oldest first, at most some thousands, ``savepoint_count`` of all. ``estimate`` is how long a restore of the newest
    exact savepoint would take. ``history`` has points that get rarer the older they are. ``used`` is true when this look, or an earlier one, saw the
    application in use. ``fresh_seconds`` is how long a look of the monitor says something of the present, None without a schedule of looks.
    """

    taken_at: int
    parts: dict[str, Part]
    objectives: Objectives
    advice: tuple[StatusFinding, ...]
    newest: SavepointSummary | None
    newest_exact: SavepointSummary | None
    savepoint_count: int
    savepoints: tuple[SavepointSummary, ...]
    estimate: Estimate | None
    topics: tuple[TopicStatus, ...]
    runs: tuple[RunSummary, ...]
    history: tuple[HistoryPoint, ...]
    next_savepoint_at: int | None
    disks: tuple[DiskStatus, ...] = ()
    used: bool = False
    fresh_seconds: float | None = 900.0
    monitored_at: int | None = None

    @property
    def newest_age_seconds(self) -> float | None:
        """Age of the newest exact savepoint when the report was made, None without one."""
        return None if self.newest_exact is None else self._age(self.newest_exact.captured_at)

    @property
    def recovery_point(self) -> int | None:
        """The moment (ms) up to which input would be there if the cluster were lost now, None if no input would be there."""
        return recovery_point(self.newest_exact, self.archive)

    @property
    def loss_seconds(self) -> float | None:
        """Age of the recovery point when the report was made, None without one."""
        point = self.recovery_point
        return None if point is None else self._age(point)

    def _age(self, moment: int) -> float:
        return max(0.0, (self.taken_at - moment) / 1000)


def come_by(found: Iterable[One], now: int) -> list[One]:
    """Savepoints whose time has come at ``now`` (ms). One of a later time would have no age until then."""
    return [one for one in found if one.captured_at <= now + CLOCK_DIFFERENCE_MS]


def newest_exact(found: Iterable[One]) -> One | None:
    """Of savepoints, the newest last, the one that a restore takes by default: the newest exact one with state, else the newest exact one."""
    exact = [one for one in found if one.consistency is Consistency.EXACT and not one.rescaled]
    full = [one for one in exact if one.profile is Profile.FULL]
    return next(reversed(full or exact), None)


def recovery_point(newest: SavepointFacts | None, archive: ArchiveStatus | None) -> int | None:
    """The moment (ms) up to which input would be there if the cluster were lost now, with the ``newest`` exact savepoint. None if no input would be there:
    there is no such savepoint, or it is not enough without the cluster.
    """
    if newest is None or not newest.survives_cluster_loss:
        return None
    archived = archive.safe_at if archive is not None else None
    return newest.captured_at if archived is None else max(newest.captured_at, archived)


def archive_status(archive: Archive, newest: Manifest | None, behind: Extended | None, now: int) -> ArchiveStatus:
    """The status of an archive. ``newest`` is the newest exact savepoint, and ``behind`` that savepoint extended by the archive, None if the archive adds
    nothing. Nothing is promised of a moment that has not come, by an archiver's clock that is ahead.
    """
    at_work = is_at_work(archive, now)
    elsewhere = archive.cluster_id if at_work and newest is not None and newest.cluster_id != archive.cluster_id else ""
    safe_at = behind.safe_at if behind is not None and not behind.left else None
    cut = archive.cut
    return ArchiveStatus(
        working=at_work and not elsewhere,
        elsewhere=elsewhere,
        said_at=archive.at,
        safe_at=None if safe_at is None or safe_at > now + CLOCK_DIFFERENCE_MS else safe_at,
        waiting=archive.waiting,
        files=archive.files,
        left=() if behind is None else behind.left[:_NAMED],
        left_count=0 if behind is None else len(behind.left),
        lost=sum(gap.end - gap.start for log in archive.newest.values() for gap in log.gaps),
        state_at=cut.captured_at if cut is not None and behind is not None and cut.captured_at > behind.manifest.captured_at else None,
        looks=archive.looks or None,
    )


def unusable(problem: str) -> ArchiveStatus:
    """The status of an archive that cannot be used."""
    return ArchiveStatus(working=False, said_at=None, safe_at=None, waiting=0, files=0, problem=problem)


def disk_bytes(topics: Iterable[TopicStatus], role: TopicRole) -> int | None:
    """Bytes of all topics of a role on the disks of all brokers, None when none of them is known."""
    known = [topic.disk_bytes for topic in topics if topic.role is role and topic.disk_bytes is not None]
    return sum(known) if known else None
