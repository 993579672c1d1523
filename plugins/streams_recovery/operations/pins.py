"""Marks on single savepoints: kept whatever the rules of retention say, or left to them again. Persons set them, and restores that need one."""

from __future__ import annotations

from streams_recovery.core.repository.retention import Pin
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog


def pin_log(recovery: RecoveryContext) -> AppendLog[Pin]:
    """All of them, oldest first."""
    return AppendLog(recovery.repository, recovery.layout.pins, Pin)


def pin(recovery: RecoveryContext, savepoint_id: str, *, keep: bool, requested_by: str, reason: str, restore_id: str | None = None) -> None:
    """Set or end a pin: that of ``restore_id``, or the one that persons set. Checks nothing: neither that the savepoint is there nor that nobody
    expires it meanwhile.
    """
    pin_log(recovery).append(
        Pin(savepoint_id=savepoint_id, keep=keep, at=recovery.clock(), requested_by=requested_by, reason=reason, restore_id=restore_id)
    )
