"""Instances that a dead run has left paused or stopped."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

LEFT = "quiesce-left"


def _find(observed: ObservedApplication, _limits: Limits) -> Iterator[StatusFinding]:
    facts = observed.repository
    # A run that has the lock brings its instances back itself.
    if facts is None or facts.quiesce is None or facts.lock is not None:
        return
    held = facts.quiesce
    age = observed.age(held.since)
    yield finding(
        LEFT,
        Severity.CRITICAL,
        f"run {held.run} has left {', '.join(held.instances) or 'the application'} in mode {held.mode} for {span(age)} and is gone; the next savepoint "
        "brings them back",
        remedies=[command("backup", observed.name)],
        numbers={"age_seconds": age, "instances": float(len(held.instances))},
    )


RULE = Rule(kinds=(LEFT,), parts=(PartName.REPOSITORY,), find=_find)
