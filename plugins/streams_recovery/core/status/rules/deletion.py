"""Savepoints that will be deleted: by what an expiry has announced and not begun, or because somebody has released their pin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams_recovery.core.next_command import command
from streams_recovery.core.status.facts import ObservedApplication, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.timestamps import moment

KIND: Final = "deletion-announced"
RELEASED: Final = "pin-released"
_NAMED: Final = 20


def _find(observed: ObservedApplication, limits: Limits) -> Iterator[StatusFinding]:
    del limits
    yield from _announced(observed)
    leaving = observed.repository.leaving if observed.repository else {}
    # Whoever can write to the repository can release a pin: a person has to see it while it can be set again.
    for savepoint_id, until in sorted(leaving.items(), key=lambda one: one[1])[:_NAMED]:
        yield finding(
            RELEASED,
            Severity.WARNING,
            f"the pin of savepoint {savepoint_id} was released. From {moment(until)} on only the rules of retention keep it",
            subject=savepoint_id,
            remedies=[command("savepoints", "keep", observed.name, savepoint_id, "--reason", "REASON")],
            numbers={"seconds_left": (until - observed.now) / 1000, "savepoints": float(len(leaving))},
        )


def _announced(observed: ObservedApplication) -> Iterator[StatusFinding]:
    outlook = observed.repository.deletion if observed.repository else None
    if outlook is None or outlook.deletes_from is None or outlook.due or not outlook.scheduled:
        return
    yield finding(
        KIND,
        Severity.INFO,
        f"from {moment(outlook.deletes_from)} on, expiry deletes savepoints that no rule of retention keeps",
        remedies=[command("expire", observed.name, "--plan")],
        numbers={"seconds_left": (outlook.deletes_from - observed.now) / 1000},
    )


RULE = Rule(kinds=(KIND, RELEASED), parts=(PartName.REPOSITORY,), find=_find)
