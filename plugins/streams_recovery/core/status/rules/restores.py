"""Restores that are not over: given up half way, or running for too long."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName, RestoreState
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

UNFINISHED, LATE = "restore-unfinished", "restore-over-deadline"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    for restore in observed.repository.restores if observed.repository else ():
        if restore.destroyed and not restore.running:
            yield _unfinished(observed, restore)
        elif restore.running:
            yield from _late(observed, restore, limits)


def _unfinished(observed: ObservedApplication, restore: RestoreState) -> StatusFinding:
    age = observed.age(restore.began_at)
    known = f"it came to phase {restore.phase}" if not restore.problem else f"how far it came is not known: {restore.problem}"
    return finding(
        UNFINISHED,
        Severity.CRITICAL,
        f"restore {restore.restore_id} began {span(age)} ago and failed after it had begun to replace topics; {known}",
        subject=restore.restore_id,
        remedies=[command("resume", observed.name, restore.restore_id), command("dismiss", observed.name, restore.restore_id)],
        numbers={"age_seconds": age},
    )


def _late(observed: ObservedApplication, restore: RestoreState, limits: Limits) -> Iterator[StatusFinding]:
    age, deadline = observed.age(restore.began_at), limits.recovery_time or limits.restore_time
    if age > deadline:
        yield finding(
            LATE,
            Severity.CRITICAL,
            f"restore {restore.restore_id} runs for {span(age)} and is in phase {restore.phase}; its deadline was {span(deadline)}",
            subject=restore.restore_id,
            numbers={"age_seconds": age, "deadline_seconds": deadline},
        )


RULE = Rule(kinds=(UNFINISHED, LATE), parts=(PartName.REPOSITORY,), find=_find)
