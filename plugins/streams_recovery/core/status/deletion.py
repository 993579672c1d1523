"""The finding that says from when on expiry deletes."""

from __future__ import annotations

from typing import Final

from streams_recovery.core.repository.announcement import DeletionOutlook
from streams_recovery.core.status.finding import Severity, StatusFinding
from streams_recovery.core.text.next_command import command
from streams_recovery.core.text.restore_plan import moment

KIND: Final = "deletion-announced"
RUNBOOK: Final = "docs/runbooks/disk-full.md#what-expiry-deletes-and-when"


def deletion_findings(name: str, outlook: DeletionOutlook, *, now: int) -> tuple[StatusFinding, ...]:
    """One finding while a deletion is announced and has not begun, else none. ``name`` is the application's configured name, ``now`` in milliseconds."""
    if outlook.deletes_from is None or outlook.due or not outlook.scheduled:
        return ()
    return (
        StatusFinding(
            kind=KIND,
            severity=Severity.INFO,
            subject="",
            text=f"From {moment(outlook.deletes_from)} on, expiry deletes savepoints that no rule of retention keeps.",
            remedies=(command("expire", name, "--plan"),),
            runbook=RUNBOOK,
            numbers={"seconds_left": (outlook.deletes_from - now) / 1000},
        ),
    )
