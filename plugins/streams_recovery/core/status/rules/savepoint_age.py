"""The age of the newest exact savepoint, against the objective or, without one, against the schedule."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

NONE, OLD, LATE = "no-savepoint", "savepoint-too-old", "savepoint-late"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    remedies = [command("backup", observed.name)]
    newest = observed.newest_exact
    if newest is None:
        # Not to be read as "none": nobody has been able to look.
        if observed.repository is not None:
            yield finding(NONE, Severity.CRITICAL, "there is no exact savepoint: the application cannot be brought back", remedies=remedies)
        return
    age = observed.age(newest.captured_at)
    if limits.newest_age is not None:
        if age > limits.newest_age:
            yield finding(
                OLD,
                Severity.CRITICAL,
                f"the newest exact savepoint is {span(age)} old, the objective is {span(limits.newest_age)}",
                remedies=remedies,
                numbers={"age_seconds": age, "objective_seconds": limits.newest_age},
            )
    elif limits.late_after is not None and age > limits.late_after:
        yield finding(
            LATE,
            Severity.WARNING,
            f"the newest exact savepoint is {span(age)} old; by the schedule it should be {span(limits.late_after)} at most",
            remedies=remedies,
            numbers={"age_seconds": age, "limit_seconds": limits.late_after},
        )


RULE = Rule(kinds=(NONE, OLD, LATE), find=_find)
