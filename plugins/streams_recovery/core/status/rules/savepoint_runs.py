"""The last run that was to take a savepoint."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

FAILED = "savepoint-failed"


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    last = observed.repository.last_run if observed.repository else None
    if last is None or not last.over or last.savepoint_id is not None:
        return
    age = observed.age(last.began_at)
    yield finding(
        FAILED,
        Severity.WARNING,
        f"the last run that was to take a savepoint, {last.run}, began {span(age)} ago and published none",
        remedies=[command("preflight", observed.name, "--for", "backup"), command("backup", observed.name)],
        numbers={"age_seconds": age},
    )


RULE = Rule(kinds=(FAILED,), parts=(PartName.REPOSITORY,), find=_find)
