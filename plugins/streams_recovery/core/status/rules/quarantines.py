"""Later input that a restore in place has set aside and that nobody has appended again."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

LEFT = "quarantine-left"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
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


RULE = Rule(kinds=(LEFT,), parts=(PartName.REPOSITORY,), find=_find)
