"""The last drill: failed, long ago, or slower or staler than the objectives."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import DrillState, ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

FAILED, OVERDUE, RPO, RTO = "drill-failed", "drill-overdue", "rpo-over-objective", "rto-over-objective"
LOSS = "drill-loss-over-objective"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    last = observed.repository.drill if observed.repository else None
    remedies = [command("drill", observed.name)]
    schedule = observed.schedules.drills
    age = observed.age(last.began_at if last is not None else observed.known_since)
    if schedule is not None and age > schedule + limits.overdue_after:
        text = f"the last drill was {span(age)} ago" if last is not None else f"there was no drill in the {span(age)} that are known"
        yield finding(
            OVERDUE,
            Severity.WARNING,
            f"{text}, one is due every {span(schedule)}",
            remedies=remedies,
            numbers={"age_seconds": age, "schedule_seconds": schedule},
        )
    if last is None:
        return
    if not last.succeeded:
        yield finding(
            FAILED,
            Severity.CRITICAL,
            f"the last drill, {last.run}, {last.outcome}: a restore may fail in the same way",
            remedies=remedies,
            numbers={"age_seconds": age},
        )
    yield from _objectives(last, limits)


def _objectives(last: DrillState, limits: Limits) -> Iterator[StatusFinding]:
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


RULE = Rule(kinds=(FAILED, OVERDUE, RPO, RTO, LOSS), parts=(PartName.REPOSITORY,), find=_find)
