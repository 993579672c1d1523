"""Marks on single savepoints: kept whatever the rules of retention say, or left to them again. Persons set them, and restores that need one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from streams_recovery.core.repository.retention import DAY_MS, Pin, Pins
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog


def pin_log(recovery: RecoveryContext) -> AppendLog[Pin]:
    """All of them, oldest first."""
    return AppendLog(recovery.repository, recovery.layout.pins, Pin)


def pins_of(recovery: RecoveryContext, *, readable: bool = False) -> Pins:
    """All of them as retention counts them, each at the moment when it was stored, whatever time its writer names. ``readable`` is for lists that people
    look at: what cannot be read is passed over. Raises ``Damaged`` without it.
    """
    entries: Iterable[tuple[Pin, int]] = reversed(list(pin_log(recovery).dated_back(readable=readable)))
    marks = tuple(replace(mark, at=stored) for mark, stored in entries)
    return Pins(marks=marks, now=recovery.clock(), notice_ms=recovery.config.retention.grace_days * DAY_MS)


def pin(recovery: RecoveryContext, savepoint_id: str, *, keep: bool, requested_by: str, reason: str, restore_id: str | None = None) -> None:
    """Set or end a pin: that of ``restore_id``, or the one that persons set. Checks nothing: neither that the savepoint is there nor that nobody
    expires it meanwhile.
    """
    pin_log(recovery).append(
        Pin(savepoint_id=savepoint_id, keep=keep, at=recovery.clock(), requested_by=requested_by, reason=reason, restore_id=restore_id)
    )
