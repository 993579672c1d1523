"""One look at an application. A part that cannot be seen keeps its last known values, with the reason. Takes no lock.

The monitor looks at everything. Any other run that changes the repository makes that part of the status anew, at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from croniter import croniter

from streams_recovery.config.monitor import longest_pause
from streams_recovery.config.rules import AFTER_SAVEPOINTS
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.estimate import Estimate
from streams_recovery.core.status.facts import (
    ClusterFacts,
    DiskFacts,
    InstanceFacts,
    ObservedApplication,
    PartName,
    RepositoryFacts,
    Schedules,
    health,
    judge,
)
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.look import seen_in_use, thinned, unused
from streams_recovery.core.status.report import (
    FencedSite,
    Health,
    HistoryPoint,
    Objectives,
    Part,
    RunSummary,
    SitesStatus,
    StatusFinding,
    StatusReport,
    TopicStatus,
    disk_bytes,
    newest_exact,
)
from streams_recovery.core.status.rules import RULES
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint_way import savepoint_way
from streams_recovery.operations.status import read
from streams_recovery.operations.status.cluster import DisksSeen, cluster_facts, disks_seen
from streams_recovery.operations.status.estimate import estimate_by_earlier, estimate_of
from streams_recovery.operations.status.log import newest, record, shorten, status_log
from streams_recovery.operations.status.notices import advice
from streams_recovery.operations.status.repository import repository_facts, savepoints_of_the_past
from streams_recovery.operations.status.savepoints import MOST, Savepoints, list_savepoints, runs
from streams_recovery.operations.status.sites import tend_fences, with_standbys
from streams_recovery.operations.status.stored import ArchiveSeen, limits, outline, recorded, see_archive

LOGGER = logger("streams_recovery.operations.status.look")

T = TypeVar("T")
# A bucket of a million segments takes a thousand requests to list, and settings change seldom: once an hour is often enough for both.
_SELDOM_MS: Final = 3_600_000
# Entries of others that a refresh makes way for.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _InRepository:
    savepoints: Savepoints
    facts: RepositoryFacts
    runs: tuple[RunSummary, ...]
    bytes: int | None
    sites: SitesStatus
    newest_exact: Manifest | None
    archive: ArchiveSeen

    def with_all_archived(self, now: int) -> _InRepository:
        """The part if the cluster has nothing that the archive does not have."""
        status = self.facts.archive
        if status is None or status.safe_at is None:
            return self
        return replace(self, facts=replace(self.facts, archive=replace(status, safe_at=max(now, status.safe_at))))


def observe(
    recovery: RecoveryContext,
    earlier: StatusReport | None,
    fenced: Mapping[str, FencedSite] | None = None,
    *,
    judged_by: Limits | None = None,
) -> StatusReport:
    """The status now. ``earlier`` is the newest report that there is, ``fenced`` what was just seen of the fenced sites. Without ``judged_by`` the limits are
    those of the application.
    """
    now = recovery.clock()
    before = earlier if earlier is not None else _nothing(recovery, now)
    parts = dict(before.parts)
    inside = _seen(parts, PartName.REPOSITORY, now, lambda: _in_repository(recovery, earlier, now))
    newest = outline(recovery, before.newest_exact) if inside is None else inside.newest_exact
    archive = ArchiveSeen(saved=newest) if inside is None else inside.archive
    # In this order: what the cluster has then was there when the archive had been read.
    cluster = _seen(parts, PartName.CLUSTER, now, lambda: cluster_facts(recovery, newest, archive))
    if inside is not None and cluster is not None and cluster.all_archived:
        inside = inside.with_all_archived(now)
    disks = _disks(recovery, parts, now, cluster)
    instances = _seen(parts, PartName.APPLICATION, now, lambda: _instances(recovery))
    report = replace(
        _begun(recovery, before, parts, now),
        monitored_at=now,
        topics=_topics(before.topics, cluster, disks),
        disks=disks.facts.disks,
        estimate=_estimate(recovery, before, newest, cluster),
        advice=_advice(recovery, before, now, cluster),
        savepoint_way=_way(recovery, before, cluster),
    )
    if inside is not None:
        report = _with_repository(report, inside)
        fences = tuple((fenced or {}).get(one.site, one) for one in report.sites.fences)
        report = replace(report, sites=with_standbys(recovery, replace(report.sites, fences=fences), newest, now))
    report = replace(report, history=thinned((*before.history, _point(report, cluster, disks)), now=now))
    observed = _observed(recovery, report, inside, cluster, disks.facts, instances)
    if unused(observed):
        return replace(report, findings=(), advice=(), health=Health.UNUSED, used=False)
    found = judge(RULES, observed, judged_by or limits(recovery), before.findings)
    used = before.used or seen_in_use(observed)
    return replace(report, findings=found, health=health(found, [part.looked_at for part in parts.values()]), used=used)


def watch(recovery: RecoveryContext) -> StatusReport:
    """Look, stop instances at a fenced site that answers again, and store what was seen."""
    log, earlier = status_log(recovery.repository, recovery.layout), newest(recovery.repository, recovery.layout)
    report = observe(recovery, earlier, tend_fences(recovery))
    if record(recovery, report, earlier):
        before = next(itertools.islice(log.readable_back(whole=False), 1, None), None)
        if before is not None and before != earlier:
            # A run has changed the repository meanwhile, and this look may have come before.
            refresh(recovery)
    return report


def refresh(recovery: RecoveryContext) -> None:
    """Store the newest status with what the repository says now. The monitor makes it whole again, so a failure is only logged."""
    try:
        log = status_log(recovery.repository, recovery.layout)
        for _ in range(_TRIES):
            known = read.newest(recovery.repository, recovery.layout, None)
            report = _refreshed(recovery, None if known is None else known.report)
            if known is None:
                log.append(report, whole=False)
            elif not log.append_behind(known.key, report):
                continue
            shorten(log)
            return
        log.append(report, whole=False)
    except RecoveryError as error:
        LOGGER.warning("the status of %s could not be made anew: %s", recovery.application_id, error.reason)


def _refreshed(recovery: RecoveryContext, earlier: StatusReport | None) -> StatusReport:
    now = recovery.clock()
    before = earlier if earlier is not None else _nothing(recovery, now)
    inside = _in_repository(recovery, earlier, now)
    parts = before.parts | {PartName.REPOSITORY.value: Part(looked_at=now, problem=None)}
    report = _with_repository(_begun(recovery, before, parts, now), inside)
    report = replace(report, estimate=_estimate(recovery, before, inside.newest_exact, None))
    observed = _observed(recovery, report, inside, None, None, None)
    found = judge(RULES, observed, limits(recovery), before.findings)
    seen = health(found, [part.looked_at for part in parts.values()])
    # Before the monitor's first look the health is unknown.
    good = Health.UNKNOWN if report.monitored_at is None else Health.GOOD
    return replace(report, findings=found, health=good if seen is Health.GOOD else seen, used=before.used or seen_in_use(observed))


def _begun(recovery: RecoveryContext, before: StatusReport, parts: dict[str, Part], now: int) -> StatusReport:
    """A report of now, by its parts and the configuration."""
    return replace(
        before,
        taken_at=now,
        parts=parts,
        objectives=_objectives(recovery),
        fresh_seconds=recovery.config.monitor.fresh_seconds,
        next_savepoint_at=_next(recovery, now),
    )


def _seen(parts: dict[str, Part], name: PartName, now: int, look: Callable[[], T]) -> T | None:
    """The result of ``look``, None when it fails. ``parts`` says which."""
    try:
        found = look()
    except RecoveryError as error:
        LOGGER.warning("the %s could not be looked at: %s", name, error.reason)
        parts[name.value] = Part(looked_at=parts[name.value].looked_at, problem=error.reason)
        return None
    parts[name.value] = Part(looked_at=now, problem=None)
    return found


def _in_repository(recovery: RecoveryContext, earlier: StatusReport | None, now: int) -> _InRepository:
    measured = _measured(recovery, earlier, now)
    stored = None if measured is not None else recovery.repository.listed(f"{recovery.application_id}/")
    segments = None if stored is None else [file for file in stored if file.key.startswith(recovery.layout.segments)]
    savepoints = list_savepoints(recovery, earlier, segments)
    exact = outline(recovery, newest_exact(savepoints_of_the_past(recovery, savepoints)))
    archive = see_archive(recovery, exact)
    facts = repository_facts(recovery, savepoints, archive)
    return _InRepository(
        savepoints=savepoints,
        facts=facts,
        newest_exact=exact,
        archive=archive,
        runs=runs(recovery, earlier, facts.restores),
        bytes=measured if stored is None else sum(file.bytes for file in stored),
        sites=recorded(recovery, SitesStatus() if earlier is None else earlier.sites, [one.restore_id for one in facts.restores]),
    )


def _measured(recovery: RecoveryContext, earlier: StatusReport | None, now: int) -> int | None:
    """The size that was measured in this hour and behind the newest savepoint, which changes it most. None when it has to be measured."""
    if earlier is None or earlier.taken_at // _SELDOM_MS != now // _SELDOM_MS:
        return None
    known = [] if earlier.newest is None else [earlier.newest.savepoint_id]
    return earlier.repository_bytes if recovery.savepoints.ids()[-1:] == known else None


def _disks(recovery: RecoveryContext, parts: dict[str, Part], now: int, cluster: ClusterFacts | None) -> DisksSeen:
    partitions = None if cluster is None else {topic.name: topic.partitions for topic in cluster.topics}
    found = disks_seen(recovery, partitions)
    looked_at = now if found.problem is None else parts[PartName.DISKS.value].looked_at
    parts[PartName.DISKS.value] = Part(looked_at=looked_at, problem=found.problem)
    return found


def _instances(recovery: RecoveryContext) -> tuple[InstanceFacts, ...]:
    return tuple(
        InstanceFacts(name=one.name, state=one.state.value, streams_state=one.streams_state) for one in recovery.application.status()
    )


def _topics(before: tuple[TopicStatus, ...], cluster: ClusterFacts | None, disks: DisksSeen) -> tuple[TopicStatus, ...]:
    if cluster is None:
        return before
    known = {topic.name: topic.disk_bytes for topic in before} if disks.problem is not None else disks.facts.topic_bytes
    return tuple(replace(topic, disk_bytes=known.get(topic.name)) for topic in cluster.topics)


def _estimate(recovery: RecoveryContext, before: StatusReport, newest: Manifest | None, cluster: ClusterFacts | None) -> Estimate | None:
    if newest is None or (cluster is None and before.estimate is not None):
        return before.estimate
    try:
        return estimate_by_earlier(recovery, newest) if cluster is None else estimate_of(recovery, newest, cluster)
    except RecoveryError:
        return before.estimate


def _advice(recovery: RecoveryContext, before: StatusReport, now: int, cluster: ClusterFacts | None) -> tuple[StatusFinding, ...]:
    """The advice. Settings change seldom: it is looked up once an hour, and again until there is some."""
    if cluster is None or (before.advice and (before.monitored_at or 0) // _SELDOM_MS == now // _SELDOM_MS):
        return before.advice
    try:
        return advice(recovery)
    except RecoveryError as error:
        LOGGER.warning("the settings of %s could not be looked at: %s", recovery.application_id, error.reason)
        return before.advice


def _way(recovery: RecoveryContext, before: StatusReport, cluster: ClusterFacts | None) -> str | None:
    """The way of a savepoint, as it was known before where it cannot be told now."""
    if cluster is None:
        return before.savepoint_way
    try:
        return savepoint_way(recovery).text
    except RecoveryError as error:
        LOGGER.warning("how a savepoint of %s would be taken is not known: %s", recovery.application_id, error.reason)
        return before.savepoint_way


def _next(recovery: RecoveryContext, now: int) -> int | None:
    schedule = recovery.config.backup.schedule
    return None if schedule is None else round(croniter(schedule, now / 1000).get_next(float) * 1000)


def _objectives(recovery: RecoveryContext) -> Objectives:
    promised = limits(recovery)
    return Objectives(newest_age_seconds=promised.newest_age, recovery_seconds=promised.recovery_time, loss_seconds=promised.loss)


def _with_repository(report: StatusReport, inside: _InRepository) -> StatusReport:
    summaries = inside.savepoints.summaries
    return replace(
        report,
        newest=inside.facts.newest,
        newest_exact=inside.facts.newest_exact,
        savepoint_count=len(summaries) + len(inside.savepoints.damaged),
        savepoints=summaries[-MOST:],
        repository_bytes=inside.bytes,
        runs=inside.runs,
        forged=inside.facts.forged,
        forged_count=inside.facts.forged_count,
        sites=inside.sites,
        archive=inside.facts.archive,
        second_place=inside.facts.second_place,
        encryption=inside.facts.encryption,
    )


def _point(report: StatusReport, cluster: ClusterFacts | None, disks: DisksSeen) -> HistoryPoint:
    known = report.topics if disks.problem is None else ()
    return HistoryPoint(
        at=report.taken_at,
        changelog_bytes=disk_bytes(known, TopicRole.CHANGELOG),
        state_bytes=disks.state_bytes,
        repository_bytes=report.repository_bytes,
        lag=cluster.lag if cluster is not None else None,
        committed=cluster.committed if cluster is not None else None,
        newest_age_seconds=report.newest_age_seconds,
        free_bytes={disk.name: disk.free_bytes for disk in disks.facts.disks},
        repartition_bytes=disk_bytes(known, TopicRole.REPARTITION),
        loss_seconds=report.loss_seconds,
    )


def _observed(
    recovery: RecoveryContext,
    report: StatusReport,
    inside: _InRepository | None,
    cluster: ClusterFacts | None,
    disks: DiskFacts | None,
    instances: tuple[InstanceFacts, ...] | None,
) -> ObservedApplication:
    config = recovery.config
    drills = config.drill.schedule if config.drill is not None and config.drill.enabled else None
    mirror = None if config.storage.second_place is None else config.storage.second_place.schedule
    return ObservedApplication(
        name=config.name,
        application_id=recovery.application_id,
        now=report.taken_at,
        promised=config.backup.survive_cluster_loss,
        known_since=report.history[0].at if report.history else report.taken_at,
        # A clone that was removed again is free for the next one.
        used_before=report.used and config.clone is None,
        schedules=Schedules(
            savepoints=longest_pause(config.backup.schedule),
            checks=longest_pause(config.check.schedule),
            drills=longest_pause(drills),
            runs=longest_pause(config.run.schedule),
            mirror=None if mirror in (None, AFTER_SAVEPOINTS) else longest_pause(mirror),
        ),
        parts=report.parts,
        newest=report.newest,
        newest_exact=report.newest_exact,
        repository=inside.facts if inside is not None else None,
        cluster=cluster,
        disks=disks,
        application=instances,
        archiving=config.archive.enabled,
        archiving_state=config.archive.state,
        history=report.history,
        sites=report.sites,
    )


def _nothing(recovery: RecoveryContext, now: int) -> StatusReport:
    """The status before the first look."""
    return StatusReport(
        name=recovery.config.name,
        application_id=recovery.application_id,
        taken_at=now,
        health=health((), [None]),
        parts={name.value: Part(looked_at=None, problem=None) for name in PartName},
        objectives=_objectives(recovery),
        findings=(),
        advice=(),
        newest=None,
        newest_exact=None,
        savepoint_count=0,
        savepoints=(),
        estimate=None,
        repository_bytes=None,
        topics=(),
        runs=(),
        history=(),
        next_savepoint_at=None,
    )
