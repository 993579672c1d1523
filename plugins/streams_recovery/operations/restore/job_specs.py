"""What a job that loads records is told, from the configuration of the application."""

from __future__ import annotations

from streams_recovery.core.jobs.spec import PartitionToLoad, RestoreSpec
from streams_recovery.core.throttle import Throttle
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import Locked


def throttle(recovery: RecoveryContext) -> Throttle:
    """The configured limits of a whole load."""
    limits = recovery.config.restore.throttle
    return Throttle(records_per_second=limits.records_per_second, bytes_per_second=limits.bytes_per_second)


def restore_spec(
    recovery: RecoveryContext, ticket: Locked, partitions: tuple[PartitionToLoad, ...], *, read_back: bool = True
) -> RestoreSpec:
    """Load these partitions, as long as the ticket's lock holds, and read them back."""
    limits = throttle(recovery)
    limited = limits.records_per_second is not None or limits.bytes_per_second is not None
    return RestoreSpec(
        application_id=recovery.application_id,
        partitions=partitions,
        lock=ticket.lock,
        throttle=limits if limited else None,
        stall_seconds=float(recovery.config.restore.stall_timeout_seconds),
        read_back=read_back,
    )
