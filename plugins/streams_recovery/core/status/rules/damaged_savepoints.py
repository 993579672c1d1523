"""Savepoints that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.status.facts import Observed, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.text.next_command import command

DAMAGED = "savepoints-unreadable"
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


RULE = Rule(kinds=(DAMAGED,), parts=(PartName.REPOSITORY,), find=_find)
