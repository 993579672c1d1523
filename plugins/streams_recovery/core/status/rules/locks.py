"""The application's lock: held for very long, or by a record that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.words import span

LONG, UNREADABLE = "lock-held-long", "lock-unreadable"


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    lock = observed.repository.lock if observed.repository else None
    if lock is None:
        return
    if lock.unreadable:
        yield finding(
            UNREADABLE,
            Severity.CRITICAL,
            f"nobody can tell who holds the lock: {lock.unreadable} cannot be read, so no savepoint is taken",
            remedies=[command("unlock", observed.name, lock.unreadable)],
        )
        return
    age = observed.age(lock.since)
    if age > limits.lock_age:
        yield finding(
            LONG,
            Severity.WARNING,
            f"{lock.owner} holds the lock for {span(age)}, for {lock.purpose}; no savepoint is taken meanwhile",
            subject=lock.owner,
            remedies=[command("unlock", observed.name, lock.owner)],
            numbers={"age_seconds": age, "limit_seconds": limits.lock_age},
        )


RULE = Rule(kinds=(LONG, UNREADABLE), parts=(PartName.REPOSITORY,), find=_find)
