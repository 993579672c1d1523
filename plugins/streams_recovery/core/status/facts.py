"""Facts that the monitor has seen of one application at one moment, the limits for them, and the judgement by rules.

Moments are milliseconds, lengths of time seconds. Growth is a share a day: 0.5 is half as much again. The rules are in ``rules``; docs/alerts.md tells
people of their findings.

No fact has a default: a new fact does not pass the type checker until it is gathered, and a rule about a fact that is not gathered would find nothing.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streams_recovery.core.checks.catalogue import as_advice
from streams_recovery.core.checks.check import CatalogueCheck, F_contra, Occasion, Severity
from streams_recovery.core.checks.facts import AdviceFacts
from streams_recovery.core.kafka_types import GroupDescription
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.remedies.transactions import OpenTransaction
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.repository.retention import DeletionOutlook
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.status.limits import DAY, HOUR, Limits
from streams_recovery.core.status.report import (
    DiskStatus,
    Health,
    HistoryPoint,
    Part,
    RepositoryOutline,
    SavepointSummary,
    SitesStatus,
    StatusFinding,
    TopicStatus,
)

# How the name of a broker's disk begins.
BROKER: Final = "broker "
# In a shorter time a trend looks like an hour of much work.
_LEAST: Final = 6 * HOUR
_WINDOW: Final = 2 * DAY
_LEAST_POINTS: Final = 3

Measured = Callable[[HistoryPoint], int | None]


class PartName(enum.StrEnum):
    """A part that is looked at by itself, so that a part without an answer does not hide the others."""

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
    """The application's lock and its ``owner``. ``unreadable`` is the key of a newest record that is none, empty else. ``place`` is the host
    and the pid of a run that is one process.
    """

    owner: str
    purpose: str
    since: int
    unreadable: str
    place: tuple[str, int] | None = None


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
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckState:
    """The newest check of the repository. ``causes`` are why it is not good, and ``savepoints`` those that it found not to be whole."""

    check_id: str
    at: int
    causes: tuple[str, ...]
    savepoints: tuple[str, ...]


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
    """The writer of the outputs, by the log of the application and that of the ``other`` one that it transferred them to or from. ``theirs`` is the role of the
    other one, None when its log is empty; if the other one has handed them on, the role of the last one in the chain. ``problem`` says why one of the logs
    cannot be read, empty when all can. Without any entry there is no such state.
    """

    role: Role
    clone: bool
    other: str
    theirs: Role | None
    theirs_towards: str
    run: str
    since: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFacts(RepositoryOutline):
    """Facts of the repository. ``damaged`` are savepoints that cannot be read; ``lost_with_cluster`` is why the newest exact savepoint is not enough when the
    cluster is lost. ``deletion`` is what runs of the expiry's schedule do, None when its announcement cannot be read: a check tells of that. ``leaving`` are
    savepoints whose pin was released, each with the moment (ms) from which on that counts. ``ahead`` are ids of savepoints and restores that have a time that
    has not come, or say that they are of one. ``ownership`` is None for an application that no clone ever replaced. ``sealed`` is true where records are
    believed by their seals. ``archive_news``: it has input that the state a restore begins from has not read.
    """

    newest: SavepointSummary | None
    newest_exact: SavepointSummary | None
    damaged: tuple[str, ...]
    lost_with_cluster: tuple[str, ...]
    last_run: SavepointRun | None
    lock: LockState | None
    restores: tuple[RestoreState, ...]
    check: CheckState | None
    drill: DrillEntry | None
    quarantines: tuple[QuarantineState, ...]
    holds: tuple[HoldState, ...]
    quiesce: QuiesceState | None
    deletion: DeletionOutlook | None
    leaving: dict[str, int]
    ahead: tuple[str, ...]
    ownership: OwnershipState | None
    sealed: bool
    archive_news: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """One input topic. ``needed_since`` is the time of the first record that the application, or a restore of the newest exact savepoint, needs and that
    neither a savepoint nor the archive has, None when there is none or nothing is known of it; ``retention_seconds`` None when it deletes nothing by time.
    ``lost`` records are gone although the newest exact savepoint needs them or no archive has them; ``unread`` records are gone although the application has
    not read them. ``since_savepoint`` is how far the application would be behind with that savepoint.
    """

    topic: str
    retention_seconds: float | None
    needed_since: int | None
    lost: int
    unread: int
    since_savepoint: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Facts of the cluster. ``all_archived``: there was no record of an input or global, at a moment of this look, that the archive did not have. ``missing``
    topics are declared, or in the newest exact savepoint, and not there. ``unattributed`` internal topics may be another application's. ``refused`` is why a
    restore of the newest exact savepoint would be refused now. ``committed`` is the sum of the committed offsets of inputs.
    """

    tools: KafkaTools
    group: GroupDescription
    topics: tuple[TopicStatus, ...]
    missing: tuple[str, ...]
    inputs: tuple[InputState, ...]
    transactions: tuple[OpenTransaction, ...]
    unattributed: tuple[str, ...]
    refused: tuple[str, ...]
    all_archived: bool
    committed: int

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
    """Seconds between two runs at most, None without a schedule. ``runs`` are those of an application that is down in between. ``mirror`` are those that
    fill the second place, None too where they follow savepoints.
    """

    savepoints: float | None
    checks: float | None
    drills: float | None
    runs: float | None
    mirror: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedApplication:
    """One look. A part that could not be looked at is None. ``newest_exact`` and ``newest`` are the last that are known. ``history`` has this look as its
    last point. ``promised`` is ``backup.survive_cluster_loss``, and ``known_since`` the moment of the first look. ``used_before`` is true when an earlier
    look saw the application in use. ``archiving`` is ``archive.enabled``, and ``archiving_state`` is ``archive.state``.
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
    sites: SitesStatus
    archiving: bool
    archiving_state: bool

    def age(self, moment: int) -> float:
        """Seconds since a moment. Clocks of two machines: one that seems to lie ahead is now."""
        return max(0.0, (self.now - moment) / 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, with the ``kinds`` of findings that it makes, and the ``parts`` that must have been seen for it. While a part is unseen, the rule's findings of
    the last look stay: it is unknown whether they are over. ``stays`` says the same of a single finding, whose subject was not seen though the part was.
    """

    kinds: tuple[str, ...]
    parts: tuple[PartName, ...] = ()
    find: Callable[[ObservedApplication, Limits], Iterable[StatusFinding]]
    stays: Callable[[ObservedApplication, StatusFinding], bool] = lambda _observed, _finding: False


def finding(
    kind: str,
    severity: Severity,
    text: str,
    *,
    subject: str = "",
    remedies: Sequence[str] = (),
    numbers: dict[str, float] | None = None,
) -> StatusFinding:
    """One finding; its page is the section of its kind."""
    return StatusFinding(
        kind=kind,
        severity=severity,
        subject=subject,
        text=text,
        remedies=tuple(remedies),
        runbook=f"alerts.md#{kind}",
        numbers=numbers or {},
    )


def found_in_look(check: CatalogueCheck[F_contra], facts: F_contra) -> Iterator[StatusFinding]:
    """The findings of a check of the catalogue that is asked in each look."""
    return (StatusFinding.of(place, found) for place, found in check.ask(Occasion.LOOK, facts))


def judge(
    rules: Iterable[Rule], observed: ObservedApplication, limits: Limits, earlier: Sequence[StatusFinding] = ()
) -> tuple[StatusFinding, ...]:
    """All that the rules find, the worst first. ``earlier`` are the findings of the last look."""
    found: list[StatusFinding] = []
    for rule in rules:
        if any(getattr(observed, part.value) is None for part in rule.parts):
            found += [one for one in earlier if one.kind in rule.kinds]
        else:
            new = [one.with_docs_at(limits.docs) for one in rule.find(observed, limits)]
            causes = {one.cause for one in new}
            found += new
            found += [one for one in earlier if one.kind in rule.kinds and one.cause not in causes and rule.stays(observed, one)]
    return tuple(sorted(found, key=lambda one: (one.severity.rank, one.kind, one.subject)))


def advise(facts: AdviceFacts) -> tuple[StatusFinding, ...]:
    """All advice, the worst first."""
    return tuple(sorted((StatusFinding.of(place, found) for place, found in as_advice(facts)), key=lambda one: one.severity.rank))


def health(findings: Iterable[StatusFinding], parts: Iterable[int | None]) -> Health:
    """The worst of what was found; ``parts`` are the moments at which each part was last seen."""
    severities = {one.severity for one in findings}
    if Severity.CRITICAL in severities:
        return Health.TROUBLE
    if all(moment is None for moment in parts):
        return Health.UNKNOWN
    return Health.ATTENTION if Severity.WARNING in severities else Health.GOOD


def per_second(observed: ObservedApplication, value: Measured, *, window: float = _WINDOW, least: float = _LEAST) -> float | None:
    """The slope of the line through the points of the last ``window`` seconds, None when they are too few or span less than ``least`` seconds."""
    begin = observed.now - window * 1000
    points = [(point.at / 1000, found) for point in observed.history if point.at >= begin and (found := value(point)) is not None]
    if len(points) < _LEAST_POINTS or points[-1][0] - points[0][0] < least:
        return None
    moments, values = zip(*points, strict=True)
    return float(statistics.linear_regression(moments, values).slope)


def daily_growth(observed: ObservedApplication, value: Measured, *, least: int, share: float) -> tuple[int, float] | None:
    """The newest value and its growth a day. None unless the value is above ``least`` and the growth above this ``share``."""
    slope = per_second(observed, value)
    now = next((found for point in reversed(observed.history) if (found := value(point)) is not None), 0)
    daily = slope * DAY if slope is not None else 0.0
    return (now, daily) if now > least and daily > share * max(1.0, now - daily) else None
