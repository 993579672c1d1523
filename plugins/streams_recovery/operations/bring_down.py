"""Bringing an application down, proven: by its instances, by what they leave behind in its group, and by its transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, StreamsApplication
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import ApplicationRunning, OffsetsUnstable
from streams_recovery.core.group_members import NOT_IN_GROUP, WHAT_TO_DO, KnownInstance, Roll, UnknownMembers, rejoin_seconds, roll
from streams_recovery.core.names import own_transactions
from streams_recovery.core.waiting import WaitNotice, poll

if TYPE_CHECKING:
    from streams_recovery.kafka.groups import ConsumerGroups
    from streams_recovery.kafka.transactions import Transactions

# A killed instance's transaction is aborted after transaction.timeout.ms (10 s in Kafka Streams) at the coordinator's next look (10 s).
_TRANSACTION_SECONDS = 60.0
# The coordinator looks for ended sessions a moment after they have ended.
_LATE_SECONDS = 5.0
# Without a removed member no member has to come back.
_SETTLE_SECONDS = 2.0


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


def bring_down(recovery: Running, *, anyway: bool = False, confirm: Callable[[], object] = lambda: None) -> StopReport:
    """The one door for every stop: ask who is in the group, stop every instance, prove it, empty the group, and wait until its transactions are decided.

    Raises ``UnknownMembers`` before anything is stopped when a process is in the group that no known instance accounts for. ``anyway`` stops the known
    instances first even then: for one that must do no more harm, whatever else runs. ``confirm`` is asked last before that, and raises where the run is over by
    now. Raises ``ApplicationRunning`` naming instances or members that remain.
    """
    if not anyway:
        recovery.application.require_same_version()
    known = roll_of(recovery) if anyway else require_known_members(recovery)
    confirm()
    report = stop_instances(recovery)
    empty_group(recovery, report, known)
    await_decided(recovery)
    return report


def roll_of(recovery: Running) -> Roll:
    """The members of the group as they are now, by the instances that account for them."""
    members = recovery.groups.describe(recovery.application_id).members
    alive = [_known(one) for one in recovery.application.status() if one.state is not InstanceState.GONE] if members else ()
    return roll(members, alive, threads=recovery.config.dialect.members)


def settled_roll(recovery: Running) -> Roll:
    """The members of the group once no member is a stranger, or once the session of a dead member must have ended: an instance that was started again a moment
    ago leaves its old member behind.
    """
    last: list[Roll] = []

    def known() -> Roll | None:
        last[:] = [roll_of(recovery)]
        return None if last[0].strangers else last[0]

    what = f"sessions of members of the group {recovery.application_id} to end that no known instance accounts for"
    found = poll(
        known, seconds=_session_seconds(recovery), interval=1.0, what=what, message=lambda: last[0].problem(recovery.application_id)
    )
    return found or last[0]


def require_known_members(recovery: Running) -> Roll:
    """The members of the group, each of which belongs to a known instance. Raises ``UnknownMembers``."""
    found = settled_roll(recovery)
    if found.strangers:
        raise found.refusal(recovery.application_id, before="nothing was stopped")
    return found


def _known(status: InstanceStatus) -> KnownInstance:
    # Other instances may have the same host: an instance that says that it is not in the group accounts for no member there.
    beside = status.streams_state in NOT_IN_GROUP
    return KnownInstance(
        name=status.name, client_ids=status.client_ids, host="" if beside else status.host, joins=status.program_runs and not beside
    )


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


def empty_group(recovery: Running, report: StopReport, known: Roll) -> None:
    """Evict the members that instances proven gone left behind, and wait until the group stays empty. ``known`` are its members as they were before the stop.

    A classic member stays in the group after a clean close until its session times out. Evicting the member of a running instance would
    show an empty group for a moment, let offsets be written, and then the instance would rejoin on top of them: so only a member is evicted whose process
    was accounted for while it ran and is proven gone now. Any other leaves by itself, or when its session ends. Raises ``UnknownMembers`` naming those that
    stay.
    """
    group = recovery.groups.describe(recovery.application_id)
    if group.empty:
        return
    ended = known.evictable(group.members) if report.instances and report.gone else ()
    # Only members of the classic protocol can be removed, and only ones whose names tell.
    evicted = ended if group.kind == "classic" and recovery.config.dialect.members is not None else ()
    recovery.groups.evict(recovery.application_id, evicted)
    notice = WaitNotice(f"group {recovery.application_id} to become empty")
    config = recovery.config.application
    settle = rejoin_seconds(config.streams_config, config.session_timeout_ms)
    try:
        recovery.groups.wait_empty(
            recovery.application_id,
            timeout=_session_seconds(recovery),
            settle=settle if evicted else _SETTLE_SECONDS,
            waiting=notice.waiting,
        )
    except ApplicationRunning as error:
        raise UnknownMembers(
            f"{error.reason}, and the known instances of {recovery.application_id} are stopped", next_step=WHAT_TO_DO, **error.facts
        ) from error


def _session_seconds(recovery: Running) -> float:
    return recovery.config.application.session_timeout_ms / 1000 + _LATE_SECONDS


def await_decided(recovery: Running) -> None:
    """Wait until no transaction of the application is open any more.

    A coordinator that aborts one later writes its marker to the topic of that name as it is *then*: restored topics would get records that were not counted.
    Raises ``OffsetsUnstable`` naming the transactional ids.
    """
    ids = own_transactions(recovery.application_id)
    what = f"open transactions of {recovery.application_id}"
    if (
        poll(lambda: True if not recovery.transactions.undecided(ids) else None, seconds=_TRANSACTION_SECONDS, interval=0.5, what=what)
        is None
    ):
        left = recovery.transactions.undecided(ids)
        remedy = recovery.transactions.waiting(left)
        raise OffsetsUnstable(
            f"transactions of {recovery.application_id} are still open: {', '.join(left)}",
            next_step=f"{remedy}. Then run again",
            transactional_ids=left,
        ).then(*remedy.commands)
