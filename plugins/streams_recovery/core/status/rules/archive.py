"""Rules about the loss of the cluster: its cost against the objective, and the continuous archive that keeps it small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams_recovery.core.archive.tick import HEARTBEAT_SECONDS
from streams_recovery.core.checks.check import Severity
from streams_recovery.core.restore.point_in_time import CLOCK_DIFFERENCE_MS
from streams_recovery.core.status.facts import ObservedApplication, PartName, Rule, finding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.report import ArchiveStatus, StatusFinding, recovery_point
from streams_recovery.core.words import command, span

LOSS, STOPPED, BEHIND = "loss-over-objective", "archive-stopped", "archive-behind"
INCOMPLETE, GAP, UNREADABLE = "archive-incomplete", "archive-lost-input", "archive-unreadable"
STATE_OLD = "archive-state-old"
# A cut is looked for once a minute, and some looks find none.
_STATE_SECONDS: Final = 900.0


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    archive = observed.repository.archive if observed.repository is not None else None
    if limits.loss is not None:
        yield from _loss(observed, archive, limits.loss)
    if observed.archiving and (archive is None or not (archive.working or archive.problem)):
        yield finding(
            STOPPED,
            Severity.WARNING,
            f"archive.enabled is true, and no archiver is at work: {_last_heard(observed, archive)}",
            remedies=[command("archive", observed.name)],
        )
    if archive is not None:
        yield from _archive(observed, archive, limits)
        yield from _state(observed, archive)


def _last_heard(observed: ObservedApplication, archive: ArchiveStatus | None) -> str:
    if archive is None or archive.said_at is None:
        return "none ever was"
    if archive.elsewhere:
        heard = span(observed.age(archive.said_at))
        return f"the one that was heard of {heard} ago works on cluster {archive.elsewhere}, and the newest exact savepoint is of another"
    if archive.said_at > observed.now + CLOCK_DIFFERENCE_MS:
        return "what the last one said is of a time that has not come, by the clock of the monitor"
    return f"the last one was heard of {span(observed.age(archive.said_at))} ago"


def _loss(observed: ObservedApplication, archive: ArchiveStatus | None, objective: float) -> Iterator[StatusFinding]:
    point = recovery_point(observed.newest_exact, archive)
    remedies = [command("info", observed.name)]
    if point is None:
        text = "no exact savepoint survives the loss of the cluster, so that all input would be lost with it"
        yield finding(LOSS, Severity.CRITICAL, f"{text}, the objective is {span(objective)}", remedies=remedies)
        return
    # An archiver with nothing to do says so once a minute. That there was nothing to do, only the cluster can tell.
    allowed = objective if observed.cluster is not None or archive is None else objective + HEARTBEAT_SECONDS
    if (age := observed.age(point)) > allowed:
        yield finding(
            LOSS,
            Severity.CRITICAL,
            f"the loss of the cluster would cost the input of the last {span(age)}, the objective is {span(objective)}",
            remedies=remedies,
            numbers={"age_seconds": age, "objective_seconds": objective},
        )


def _archive(observed: ObservedApplication, archive: ArchiveStatus, limits: Limits) -> Iterator[StatusFinding]:
    backup = [command("backup", observed.name)]
    if archive.problem:
        yield finding(
            UNREADABLE,
            Severity.CRITICAL,
            f"the archive cannot be used: {archive.problem}",
            remedies=[command("verify", observed.name)],
        )
    if archive.working and archive.safe_at is not None and (age := observed.age(archive.safe_at)) > limits.archive_age:
        yield finding(
            BEHIND,
            Severity.WARNING,
            f"input is archived only up to {span(age)} ago, and {archive.waiting:,} records waited when it was last looked",
            numbers={"age_seconds": age, "limit_seconds": limits.archive_age, "records": float(archive.waiting)},
        )
    if archive.left_count:
        more = f", and {archive.left_count - 1:,} more partitions" if archive.left_count > 1 else ""
        yield finding(
            INCOMPLETE,
            Severity.WARNING,
            f"the archive does not go on behind the newest exact savepoint: {archive.left[0]}{more}",
            remedies=backup,
            numbers={"partitions": float(archive.left_count)},
        )
    if archive.lost:
        yield finding(
            GAP,
            Severity.WARNING,
            f"{archive.lost:,} offsets were deleted by retention before they were archived: a restore after the loss of the cluster would lack them",
            remedies=backup,
            numbers={"offsets": float(archive.lost)},
        )


def _state(observed: ObservedApplication, archive: ArchiveStatus) -> Iterator[StatusFinding]:
    savepoint, repository = observed.newest_exact, observed.repository
    if not (observed.archiving_state and archive.working) or archive.safe_at is None or savepoint is None:
        return
    # At rest there is no newer cut, and the archiver goes on to say that all is archived.
    if repository is None or not repository.archive_news:
        return
    at = savepoint.captured_at if archive.state_at is None else archive.state_at
    age = observed.age(at)
    if min(age, (archive.safe_at - at) / 1000) > _STATE_SECONDS:
        what = (
            f"there is no exact cut of the state behind the newest exact savepoint, which is {span(age)} old"
            if archive.state_at is None
            else f"the newest exact cut of the state is {span(age)} old"
        )
        yield finding(
            STATE_OLD,
            Severity.INFO,
            f"{what}: a restore would process the input since then again",
            remedies=[command("backup", observed.name)],
            numbers={"age_seconds": age, "limit_seconds": _STATE_SECONDS},
        )


RULES: Final = (Rule(kinds=(LOSS, STOPPED, BEHIND, INCOMPLETE, GAP, UNREADABLE, STATE_OLD), parts=(PartName.REPOSITORY,), find=_find),)
