"""Savepoints that cannot be read, and ids of a time that has not come."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.facts import Observed, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.text.next_command import command

DAMAGED, AHEAD = "savepoints-unreadable", "ids-ahead"
_NAMED = 3


def _find(observed: Observed, _limits: Limits) -> Iterator[StatusFinding]:
    damaged = observed.repository.damaged if observed.repository else ()
    if damaged:
        more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
        yield finding(
            DAMAGED,
            Severity.CRITICAL,
            f"these savepoints cannot be read: {', '.join(damaged[-_NAMED:])}{more}",
            remedies=[command("verify", observed.name, "--level", "full")],
            numbers={"savepoints": float(len(damaged))},
        )
    ahead = observed.repository.ahead if observed.repository else ()
    if ahead:
        more = f" and {len(ahead) - _NAMED} more" if len(ahead) > _NAMED else ""
        yield finding(
            AHEAD,
            Severity.WARNING,
            f"these savepoints and restores have a time that has not come: {', '.join(ahead[-_NAMED:])}{more}",
            remedies=[command("verify", observed.name)],
            numbers={"ids": float(len(ahead))},
        )


RULE = Rule(kinds=(DAMAGED, AHEAD), parts=(PartName.REPOSITORY,), find=_find)
