"""Bringing an application down, proven: by its instances, by what they leave behind in its group, and by its transactions."""

from __future__ import annotations

import re
from typing import Protocol

from streams_recovery.application.port import InstanceState, StopReport, StreamsApplication
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ApplicationRunning, OffsetsUnstable
from streams_recovery.core.waiting import WaitNotice, poll
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.transactions import Transactions

# A killed instance's transaction is aborted after transaction.timeout.ms (10 s in Kafka Streams) at the coordinator's next look (10 s).
_TRANSACTION_SECONDS = 60.0


class Running(Protocol):
    """The part of a context that is needed to bring an application down."""

    @property
    def application_id(self) -> str: ...

    @property
    def config(self) -> ApplicationConfig: ...

    @property
    def application(self) -> StreamsApplication: ...

    @property
    def groups(self) -> ConsumerGroups: ...

    @property
    def transactions(self) -> Transactions: ...


def bring_down(recovery: Running) -> StopReport:
    """Stop every instance, prove it, empty the group, and wait until its transactions are decided. Raises ``ApplicationRunning`` naming instances
    or members that remain.
    """
    report = stop_instances(recovery)
    empty_group(recovery, report)
    await_decided(recovery)
    return report


def stop_instances(recovery: Running, *, where: str = "") -> StopReport:
    """Stop every instance and prove it; no cluster is asked. ``where`` is added to the error. Raises ``ApplicationRunning`` naming instances that remain."""
    report = recovery.application.stop(timeout=recovery.config.runs.chosen.stop_timeout)
    if not report.gone:
        alive = [f"{i.name} ({i.detail})" for i in report.instances if i.state is not InstanceState.GONE]
        raise ApplicationRunning(
            f"instances of {recovery.application_id} did not stop{where}: {', '.join(alive)}",
            next_step="stop them by hand, or raise stop_timeout_seconds",
            instances=alive,
        )
    return report


def empty_group(recovery: Running, report: StopReport) -> None:
    """Evict the members that instances proven gone left behind, and wait until the group stays empty.

    A classic member stays in the group after a clean close until its session times out. Evicting the member of a running instance would
    show an empty group for a moment, let offsets be written, and then the instance would rejoin on top of them: so only what the
    application port has proven gone is evicted, never a member that is no stream thread. Raises ``ApplicationRunning`` naming members that
    stay: those, or all when the port cannot prove that its instances are gone.
    """
    group = recovery.groups.describe(recovery.application_id)
    if group.empty:
        return
    gone, known = bool(report.instances) and report.gone, recovery.config.dialect.members
    if gone and (group.kind != "classic" or known is None):
        # Only members of the classic protocol can be removed, and only known ones. Others leave when they close, and else when their sessions end.
        _wait_empty(recovery)
        return
    proven = gone and bool(group.members)
    staying = [member for member in group.members if not proven or known is None or not known.search(member.client_id)]
    if staying or not proven:
        hosts = ", ".join(f"{member.client_id} at {member.host}" for member in staying) or f"a {group.kind} group in state {group.state}"
        raise ApplicationRunning(
            f"the group {recovery.application_id} is in use: {hosts}",
            next_step="stop these instances; they are not among those this configuration can stop",
            group=recovery.application_id,
            members=hosts,
        )
    recovery.groups.evict(recovery.application_id, group.members)
    _wait_empty(recovery)


def _wait_empty(recovery: Running) -> None:
    notice = WaitNotice(f"group {recovery.application_id} to become empty")
    # A member that still lives rejoins within a heartbeat; one session timeout covers it.
    patience = recovery.config.application.session_timeout_ms / 1000 + 5
    recovery.groups.wait_empty(recovery.application_id, timeout=patience, waiting=notice.waiting)


def await_decided(recovery: Running) -> None:
    """Wait until no transaction of the application is open any more.

    A coordinator that aborts one later writes its marker to the topic of that name as it is *then*: restored topics would get records nobody
    counted. Raises ``OffsetsUnstable`` naming the transactional ids.
    """
    # {application.id}-{process id}-{thread}; the id alone as a prefix would also match other applications (ActiveTaskCreator).
    ids = re.compile(re.escape(recovery.application_id) + r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
    what = f"open transactions of {recovery.application_id}"
    if (
        poll(lambda: True if not recovery.transactions.undecided(ids) else None, seconds=_TRANSACTION_SECONDS, interval=0.5, what=what)
        is None
    ):
        left = ", ".join(recovery.transactions.undecided(ids))
        raise OffsetsUnstable(
            f"transactions of {recovery.application_id} are still open: {left}",
            next_step="their coordinators abort them once transaction.timeout.ms of their producers is over: wait for that, then run again",
            transactional_ids=left,
        )
