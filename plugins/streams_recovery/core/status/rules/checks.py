"""The last check of the repository: failed, or long ago."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import first_names, span

FAILED, OVERDUE = "check-failed", "check-overdue"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
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
    schedule = observed.schedules.checks
    age = observed.age(last.at if last is not None else observed.known_since)
    if schedule is not None and age > schedule + limits.overdue_after:
        text = f"the last check was {span(age)} ago" if last is not None else f"nothing was checked in the {span(age)} that are known"
        yield finding(
            OVERDUE,
            Severity.WARNING,
            f"{text}, one is due every {span(schedule)}",
            remedies=remedies,
            numbers={"age_seconds": age, "schedule_seconds": schedule},
        )


RULE = Rule(kinds=(FAILED, OVERDUE), parts=(PartName.REPOSITORY,), find=_find)
