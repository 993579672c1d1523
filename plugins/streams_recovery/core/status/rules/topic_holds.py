"""Settings of topics that a run has changed for a while and not put back."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

GUARD, RESTORED = "guard-left", "restore-hold-left"
_NAMED = 3


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    for held in facts.holds if facts else ():
        age = observed.age(held.since)
        if age <= limits.hold_age or (facts and facts.lock and facts.lock.owner.endswith(held.run)):
            continue
        named = ", ".join(held.topics[:_NAMED]) + (f" and {len(held.topics) - _NAMED} more" if len(held.topics) > _NAMED else "")
        numbers = {"age_seconds": age, "limit_seconds": limits.hold_age, "topics": float(len(held.topics))}
        if held.of_restore:
            text = f"restore {held.run} keeps retention away from {named} for {span(age)}: what it restored would expire"
            yield finding(RESTORED, Severity.INFO, text, subject=held.run, numbers=numbers)
        else:
            text = f"run {held.run} has kept the log cleaner away from {named} for {span(age)} and has not put the settings back: these logs grow"
            yield finding(GUARD, Severity.WARNING, text, subject=held.run, remedies=[command("backup", observed.name)], numbers=numbers)


RULE = Rule(kinds=(GUARD, RESTORED), parts=(PartName.REPOSITORY,), find=_find)
