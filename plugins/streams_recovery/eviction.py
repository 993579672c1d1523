"""Emptying the consumer group of an application whose instances are gone."""

from __future__ import annotations

from streams_recovery.application.port import StopReport
from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.workbench import Workbench


def empty_group(bench: Workbench, report: StopReport) -> None:
    """Evict the members that instances proven gone left behind, and wait until the group stays empty.

    A classic member stays in the group after a clean close until its session times out. Evicting the member of a living instance would
    show an empty group for a moment, let offsets be written, and then the instance would rejoin on top of them: so only what the
    application port has proven gone is evicted, and members beyond the number of those instances' threads cannot be told apart. Raises
    ``ApplicationRunning`` when the port cannot prove it.
    """
    group = bench.groups.describe(bench.application_id)
    if group.empty:
        return
    if not report.instances or not report.gone:
        hosts = (
            ", ".join(f"{member.client_id} at {member.host}" for member in group.members) or f"a {group.kind} group in state {group.state}"
        )
        raise ApplicationRunning(
            f"the group {bench.application_id} is in use: {hosts}",
            next_step="stop these instances; they are not among those this configuration can stop",
            members=hosts,
        )
    bench.groups.evict(bench.application_id, group.members)
    bench.groups.wait_empty(bench.application_id, timeout=_patience(bench))


def _patience(bench: Workbench) -> float:
    # A member that still lives rejoins within a heartbeat; one session timeout covers it.
    return bench.config.application.session_timeout_ms / 1000 + 5
