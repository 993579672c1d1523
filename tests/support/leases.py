"""Time that passes at once, so that a lease has ended."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.storage.lock import ApplicationLock


def later(recovery: RecoveryContext) -> RecoveryContext:
    """The context when every lease of now has ended."""

    def clock() -> int:
        return recovery.clock() + (LEASE_SECONDS + 1) * 1000

    return replace(recovery, clock=clock, lock=ApplicationLock(recovery.repository, recovery.layout, clock))
