"""Marks on single savepoints: kept whatever the rules of retention say, or left to them again. Persons set them, and restores that need one."""

from __future__ import annotations

from streams_recovery.core.repository.retention import KeepMark
from streams_recovery.operations.context import Workbench
from streams_recovery.storage.append_log import NumberedLog


def marks(bench: Workbench) -> NumberedLog[KeepMark]:
    """All of them, oldest first."""
    return NumberedLog(bench.repository, bench.layout.keeps, KeepMark)


def mark(bench: Workbench, savepoint_id: str, *, keep: bool, requested_by: str, reason: str, restore_id: str | None = None) -> None:
    """Set or end a mark: that of ``restore_id``, or the one that persons set. Checks nothing: neither that the savepoint is there nor that nobody
    expires it meanwhile.
    """
    marks(bench).append(
        KeepMark(savepoint_id=savepoint_id, keep=keep, at=bench.clock(), requested_by=requested_by, reason=reason, restore_id=restore_id)
    )
