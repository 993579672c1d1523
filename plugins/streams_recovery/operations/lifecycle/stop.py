"""Bringing an application down, proven: by its instances, by its group, and by its transactions."""

from __future__ import annotations

from streams_recovery.application.port import InstanceState, StopReport
from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.lifecycle.evict import await_decided, empty_group


def bring_down(recovery: RecoveryContext) -> StopReport:
    """Stop every instance, prove it, empty the group, and wait until its transactions are decided. Raises ``ApplicationRunning`` naming instances
    or members that remain.
    """
    report = recovery.application.stop(timeout=recovery.config.runs.chosen.stop_timeout)
    if not report.gone:
        alive = [f"{i.name} ({i.detail})" for i in report.instances if i.state is not InstanceState.GONE]
        raise ApplicationRunning(
            f"instances of {recovery.application_id} did not stop: {', '.join(alive)}",
            next_step="stop them by hand, or raise stop_timeout_seconds",
            instances=alive,
        )
    empty_group(recovery, report)
    await_decided(recovery)
    return report
