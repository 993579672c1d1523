"""Rules about the repository: its size, what is due in it and what will be deleted. Also about parts that could not be looked at, and about other sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.status.facts import ObservedApplication, PartName, Rule, daily_growth, finding
from streams_recovery.core.status.limits import DAY, Limits
from streams_recovery.core.status.report import StatusFinding
from streams_recovery.core.words import command, first_names, moment, moment_of, size, span

LEFT = "quarantine-left"


def _find_quarantines(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for left in observed.repository.quarantines if observed.repository else ():
        age = observed.age(left.since)
        if age <= limits.quarantine_age:
            continue
        begun = "; an append of it has begun and not ended" if left.begun else ""
        yield finding(
            LEFT,
            Severity.WARNING,
            f"restore {left.restore_id} set {left.records:,} input records aside {span(age)} ago, and they were not appended again{begun}",
            subject=left.restore_id,
            remedies=[command("append-quarantine", observed.name, left.restore_id)],
            numbers={"age_seconds": age, "records": float(left.records)},
        )


ANNOUNCED, RELEASED = "deletion-announced", "pin-released"
# Findings about released pins: each has one savepoint.
_MOST_RELEASED: Final = 20


def _find_deletion(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    yield from _announced(observed)
    leaving = observed.repository.leaving if observed.repository else {}
    # Any writer of the repository can release a pin: a person has to see that while the pin can be set again.
    for savepoint_id, until in sorted(leaving.items(), key=lambda one: one[1])[:_MOST_RELEASED]:
        yield finding(
            RELEASED,
            Severity.WARNING,
            f"the pin of savepoint {savepoint_id} was released. From {moment(until)} on only the rules of retention keep it",
            subject=savepoint_id,
            remedies=[command("savepoints", "keep", observed.name, savepoint_id, "--reason", "REASON")],
            numbers={"seconds_left": (until - observed.now) / 1000, "savepoints": float(len(leaving))},
        )


def _announced(observed: ObservedApplication) -> Iterator[StatusFinding]:
    outlook = observed.repository.deletion if observed.repository else None
    if outlook is None or outlook.deletes_from is None or outlook.due or not outlook.scheduled:
        return
    yield finding(
        ANNOUNCED,
        Severity.INFO,
        f"from {moment(outlook.deletes_from)} on, expiry deletes savepoints that no rule of retention keeps",
        remedies=[command("expire", observed.name, "--plan")],
        numbers={"seconds_left": (outlook.deletes_from - observed.now) / 1000},
    )


ONE_PLACE = "one-place-only"


def _find_second_place(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    """Savepoints that a second place should have by now: as old as the newest one may be. Without any such limit, a day. And the archive."""
    seen = observed.repository.second_place if observed.repository else None
    if seen is None:
        return
    remedies = [command("mirror", observed.name)]
    if seen.problem:
        yield finding(ONE_PLACE, Severity.WARNING, f"whether savepoints are in two places is {seen}", remedies=remedies)
        return
    age = observed.age(moment_of(seen.alone[0])) if seen.alone else 0.0
    counts = {"savepoints": float(len(seen.alone)), "entries": float(seen.entries)}
    limit = limits.newest_age if limits.newest_age is not None else DAY if limits.late_after is None else limits.late_after
    if age > limit:
        numbers = {"age_seconds": age, "limit_seconds": limit, **counts}
        yield finding(ONE_PLACE, Severity.WARNING, f"{seen}: a lost store would lose them", remedies=remedies, numbers=numbers)
    # An archive that is filled at times of its own has less time than savepoints: two of its runs.
    limit = limit if observed.schedules.mirror is None else 2 * observed.schedules.mirror + limits.archive_age
    age = observed.age(seen.archived_at if seen.archived_at is not None else observed.known_since)
    if seen.entries and age > limit:
        numbers = {"age_seconds": age, "limit_seconds": limit, **counts}
        upto = f"is {span(age)} behind" if seen.archived_at is not None else "is not there"
        text = f"the archive {upto} in {seen.place}: a lost store would lose what it has behind that"
        yield finding(ONE_PLACE, Severity.WARNING, text, subject="archive", remedies=remedies, numbers=numbers)


KEYS = "keys-unavailable"


def _find_keys(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    seen = observed.repository.encryption if observed.repository else None
    if seen is not None and seen.problems:
        yield finding(
            KEYS,
            Severity.CRITICAL,
            f"{seen}: a savepoint or a restore that needs it is refused",
            remedies=[command("keys", "list", observed.name)],
            numbers={"problems": float(len(seen.problems))},
        )
    elif seen is not None and seen.second_problem:
        text = f"{seen}: where it has not, the second place is read with the keys of the first one only"
        yield finding(KEYS, Severity.WARNING, text, remedies=[command("mirror", observed.name)])


FAILED, OVERDUE = "check-failed", "check-overdue"


def _find_checks(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    last = observed.repository.check if observed.repository else None
    remedies = [command("verify", observed.name, "--level", "full")]
    if last is not None and last.causes:
        yield finding(
            FAILED,
            Severity.CRITICAL,
            f"check {last.check_id} has found: {', '.join(last.causes)}"
            + (f"; it names these savepoints, of which none may be counted on: {first_names(last.savepoints)}" if last.savepoints else ""),
            remedies=remedies,
            numbers={"age_seconds": observed.age(last.at)},
        )
    age = observed.age(last.at if last is not None else observed.known_since)
    text = f"the last check was {span(age)} ago" if last is not None else f"nothing was checked in the {span(age)} that are known"
    yield from _overdue(OVERDUE, text, age, observed.schedules.checks, limits, remedies)


def _overdue(kind: str, text: str, age: float, schedule: float | None, limits: Limits, remedies: Sequence[str]) -> Iterator[StatusFinding]:
    if schedule is not None and age > schedule + limits.overdue_after:
        yield finding(
            kind,
            Severity.WARNING,
            f"{text}, one is due every {span(schedule)}",
            remedies=remedies,
            numbers={"age_seconds": age, "schedule_seconds": schedule},
        )


DRILL_FAILED, DRILL_OVERDUE, RPO, RTO = "drill-failed", "drill-overdue", "rpo-over-objective", "rto-over-objective"
LOSS = "drill-loss-over-objective"


def _find_drills(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    last = observed.repository.drill if observed.repository else None
    remedies = [command("drill", observed.name)]
    age = observed.age(last.began_at if last is not None else observed.known_since)
    text = f"the last drill was {span(age)} ago" if last is not None else f"there was no drill in the {span(age)} that are known"
    yield from _overdue(DRILL_OVERDUE, text, age, observed.schedules.drills, limits, remedies)
    if last is None:
        return
    if not last.succeeded:
        yield finding(
            DRILL_FAILED,
            Severity.CRITICAL,
            f"the last drill, {last.run}, {last.outcome}: a {'rescale, or a restore,' if last.partitions else 'restore'} may fail in the same way",
            remedies=remedies,
            numbers={"age_seconds": age},
        )
    yield from _objectives(last, limits)


def _objectives(last: DrillEntry, limits: Limits) -> Iterator[StatusFinding]:
    for kind, what, measured, objective in (
        (RPO, "the savepoint of the last drill was {} old", last.rpo_seconds, limits.newest_age),
        (LOSS, "a loss of the cluster at the last drill would have cost the input of {}", last.loss_seconds, limits.loss),
        (RTO, "the last drill took {} until the application had caught up", last.rto_seconds, limits.recovery_time),
    ):
        if measured is not None and objective is not None and measured > objective:
            yield finding(
                kind,
                Severity.WARNING,
                f"{what.format(span(measured))}, the objective is {span(objective)}",
                numbers={"measured_seconds": measured, "objective_seconds": objective},
            )


GROWS = "repository-grows"


def _find_repository_growth(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    share = limits.repository_growth
    found = daily_growth(observed, lambda point: point.repository_bytes, least=limits.growth_from_bytes, share=share)
    if found is not None:
        now, daily = found
        yield finding(
            GROWS,
            Severity.WARNING,
            f"the repository has {size(now)} and grows by {size(daily)} a day",
            remedies=[command("expire", observed.name, "--plan"), command("compact", observed.name, "--plan")],
            numbers={"bytes": float(now), "bytes_per_day": daily, "limit_per_day": share},
        )


UNSEEN = "not-seen"
_SEVERITY = {PartName.REPOSITORY: Severity.CRITICAL, PartName.CLUSTER: Severity.CRITICAL, PartName.APPLICATION: Severity.WARNING}


def _find_unseen_parts(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for name in PartName:
        part = observed.parts.get(name.value)
        if part is None or part.problem is None:
            continue
        # One that answers at the next look is no news.
        if part.looked_at is not None and observed.age(part.looked_at) < limits.unseen_after:
            continue
        known = {} if part.looked_at is None else {"age_seconds": observed.age(part.looked_at)}
        since = "was never seen" if part.looked_at is None else f"was last seen {span(known['age_seconds'])} ago"
        yield finding(
            UNSEEN,
            _SEVERITY.get(name, Severity.INFO),
            f"the {name} {since}: {part.problem}",
            subject=name,
            remedies=[command("preflight", observed.name, "--for", "backup")],
            numbers=known,
        )


NOT_READY, FENCED, RUNS = "standby-not-ready", "site-fenced", "runs-at-two-sites"


def _find_sites(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    for standby in observed.sites.standbys:
        if standby.problem is not None or standby.lacks:
            what = (
                f"could not be looked at: {standby.problem}"
                if standby.problem is not None
                else f"lacks {len(standby.lacks)}: {'; '.join(standby.lacks)}"
            )
            yield finding(
                NOT_READY,
                Severity.WARNING,
                f"{observed.application_id} could not fail over to the site {standby.site}, which {what}",
                subject=standby.site,
                remedies=[command("preflight", observed.name, "--to", standby.site)],
                numbers={"age_seconds": observed.age(standby.looked_at), "lacks": float(len(standby.lacks))},
            )
    for fence in observed.sites.fences:
        age = {"age_seconds": observed.age(fence.since)}
        if fence.running:
            why = "" if fence.problem is None else f"; it is not stopped, because {fence.problem}"
            yield finding(
                RUNS,
                Severity.CRITICAL,
                f"{observed.application_id} belongs to the site {observed.sites.belongs} and runs at {fence.site} "
                f"({', '.join(fence.running)}), so the same input may be processed twice{why}",
                subject=fence.site,
                remedies=[command("sites", observed.name)],
                numbers={**age, "running": float(len(fence.running))},
            )
        else:
            yield finding(
                FENCED,
                Severity.WARNING,
                f"the site {fence.site} was left {span(age['age_seconds'])} ago without a proof that nothing runs there, by {fence.run}"
                + ("" if fence.problem is None else f": {fence.problem}"),
                subject=fence.site,
                remedies=[command("sites", observed.name)],
                numbers=age,
            )


RULES: Final = (
    Rule(kinds=(LEFT,), parts=(PartName.REPOSITORY,), find=_find_quarantines),
    Rule(kinds=(ANNOUNCED, RELEASED), parts=(PartName.REPOSITORY,), find=_find_deletion),
    Rule(kinds=(ONE_PLACE,), parts=(PartName.REPOSITORY,), find=_find_second_place),
    Rule(kinds=(KEYS,), parts=(PartName.REPOSITORY,), find=_find_keys),
    Rule(kinds=(FAILED, OVERDUE), parts=(PartName.REPOSITORY,), find=_find_checks),
    Rule(kinds=(DRILL_FAILED, DRILL_OVERDUE, RPO, RTO, LOSS), parts=(PartName.REPOSITORY,), find=_find_drills),
    Rule(kinds=(GROWS,), find=_find_repository_growth),
    Rule(kinds=(UNSEEN,), find=_find_unseen_parts),
    Rule(kinds=(NOT_READY, FENCED, RUNS), find=_find_sites),
)
