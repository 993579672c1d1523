"""Parts that could not be looked at."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

UNSEEN = "not-seen"
_SEVERITY = {PartName.REPOSITORY: Severity.CRITICAL, PartName.CLUSTER: Severity.CRITICAL, PartName.APPLICATION: Severity.WARNING}


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
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


RULE = Rule(kinds=(UNSEEN,), find=_find)
