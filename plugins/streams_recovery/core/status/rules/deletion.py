"""Deletion of savepoints that an expiry has announced and not begun."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams_recovery.core.status.facts import Observed, PartName
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.status.limits import Limits
from streams_recovery.core.status.rule import Rule, finding
from streams_recovery.core.text.next_command import command
from streams_recovery.core.text.restore_plan import moment

KIND: Final = "deletion-announced"


def _find(observed: Observed, limits: Limits) -> Iterator[StatusFinding]:
    del limits
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


RULE = Rule(kinds=(KIND,), parts=(PartName.REPOSITORY,), find=_find)
