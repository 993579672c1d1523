"""Holding the application still for a cut, and letting it go."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.config.model import NO_PAUSE_WITH_STANDBY
from streams_recovery.core.errors import ApplicationNotReady, Damaged, LockLost, RecoveryError
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import Guarantee, QuiesceMode
from streams_recovery.core.savepoint import cut
from streams_recovery.core.waiting import WaitNotice, poll
from streams_recovery.kafka.range_consumer import load_libraries
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.bring_down import bring_down, require_known_members, roll_of, settled_roll
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.ownership import refuse_stop
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.savepoint.values import Quiesced, ResumeReport, Ticket

LOGGER = logger("streams_recovery.operations.savepoint.quiesce")
# A commit starts up to one interval after the pause and takes a moment to become visible. One that takes longer shows as an open transaction; without
# transactions nothing would tell.
_COMMIT_SECONDS = {Guarantee.EXACTLY_ONCE_V2: 0.3, Guarantee.AT_LEAST_ONCE: 1.0}
# KafkaStreams.State before every task has its owner, and the words of all group protocols for the same.
_NOT_ASSIGNED = ("CREATED", "REBALANCING")
_LOOK_SECONDS = 1.0
_REBALANCES = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "NotReady")


def quiesce(recovery: RecoveryContext, ticket: Ticket) -> Quiesced:
    """Hold the application the way the ticket says. An application that is down already is held by that, whatever the mode."""
    require_lock(recovery, ticket)
    load_libraries()  # for the tails: where the cut is read by this process, the application need not wait for it
    since = recovery.clock()
    _check_none_started(recovery, ticket)
    if ticket.mode is QuiesceMode.LIVE and ticket.running:
        return _as_it_runs(ticket, since, "the application was not held")
    if unknown := _unknown_members(recovery, ticket):
        LOGGER.warning("%s is saved as it runs: %s", recovery.application_id, unknown)
        return replace(_as_it_runs(ticket, since, unknown), unknown=True)
    if ticket.running:
        if ticket.mode is QuiesceMode.STOP:
            refuse_stop(recovery.application)
        _require_not_let_go(recovery, ticket)
        quiesce_record.begin(recovery, ticket.savepoint_id, ticket.mode, ticket.running)
    if ticket.mode is QuiesceMode.PAUSE and ticket.running:
        return _pause(recovery, ticket, since)
    return _stop(recovery, ticket, since)


def _as_it_runs(ticket: Ticket, since: int, why_not: str) -> Quiesced:
    return Quiesced(
        savepoint_id=ticket.savepoint_id,
        mode=QuiesceMode.LIVE,
        since=since,
        members=(),
        still=False,
        why_not=why_not,
        assumed=(),
    )


def _unknown_members(recovery: RecoveryContext, ticket: Ticket) -> str:
    """The members that would go on beside an application that is held, where the configuration asks for ``ahead`` then; else empty. Nothing was touched yet.

    Raises ``UnknownMembers``. For a paused application that works exactly once its transactions tell enough.
    """
    guarantee = recovery.config.application.guarantee
    if ticket.running and ticket.mode is QuiesceMode.PAUSE and guarantee is Guarantee.EXACTLY_ONCE_V2:
        return ""
    if recovery.config.backup.consistency.unknown_members == "ahead" and not ticket.safety:
        return settled_roll(recovery).problem(recovery.application_id)
    require_known_members(recovery)
    return ""


def _check_none_started(recovery: RecoveryContext, ticket: Ticket) -> None:
    # An instance that was not there at the beginning would not be brought back.
    started = [i.name for i in not_gone(recovery)] if not ticket.running else []
    if started:
        raise ApplicationNotReady(
            f"{', '.join(started)} of {recovery.application_id} started while the savepoint began", next_step="run the savepoint again"
        )


def _await_no_standby(recovery: RecoveryContext) -> None:
    """A rebalance may give an instance tasks to warm up, which are standby tasks too, and go away by themselves. Raises ``ApplicationNotReady``."""
    seconds = recovery.config.backup.consistency.timeout_seconds
    keeping: list[str] = []

    def none_left() -> bool | None:
        keeping[:] = [f"{status.name} has {status.standby_tasks}" for status in recovery.application.status() if status.standby_tasks]
        return None if keeping else True

    what = f"standby tasks of {recovery.application_id} to end before it is paused"
    if poll(none_left, seconds=seconds, interval=1.0, what=what, message=lambda: ", ".join(keeping)) is None:
        raise ApplicationNotReady(
            f"{recovery.application_id} was not paused because it has had standby tasks for {seconds} s, {', '.join(keeping)}: {NO_PAUSE_WITH_STANDBY}",
            next_step="run the savepoint again once they are warmed up; where they are replicas, or never end, set backup.consistency.mode to stop",
        )


def _await_no_rebalance(recovery: RecoveryContext) -> None:
    """Tasks that move during the cut spoil it. One that lasts is no reason to refuse: what the label needs is checked after each reading."""
    moving: list[str] = []

    def assigned() -> bool | None:
        moving[:] = [f"{one.name} is {one.streams_state}" for one in recovery.application.status() if one.streams_state in _NOT_ASSIGNED]
        state = recovery.groups.describe(recovery.application_id).state
        moving.extend([f"the consumer group is in state {state}"] if state in _REBALANCES else [])
        return None if moving else True

    what = f"every task of {recovery.application_id} to have its owner before it is paused"
    seconds = recovery.config.backup.consistency.timeout_seconds
    poll(assigned, seconds=seconds, interval=0.5, what=what, message=lambda: ", ".join(moving))


def _pause(recovery: RecoveryContext, ticket: Ticket, since: int) -> Quiesced:
    _await_no_rebalance(recovery)
    _await_no_standby(recovery)
    _require_on_record(recovery, ticket)
    recovery.application.pause()
    _undo_if_let_go(recovery, ticket)
    own, configured_ms = recovery.config.application, int(recovery.config.application.commit_interval_seconds * 1000)
    reported = {status.name: status.commit_interval_ms for status in recovery.application.status()}
    # A paused application still commits what it had processed (KafkaStreams#pause). Wait until that has happened.
    seconds = cut.commit_interval(reported, configured_ms) / 1000 + _COMMIT_SECONDS[own.guarantee]
    _await_commit(recovery, seconds)
    unpaused = [status.name for status in recovery.application.status() if not _is_paused(status)]
    members = _members(recovery)
    why_not = f"not every instance is paused: {', '.join(unpaused)}" if unpaused else _group_problem(recovery)
    assumed = cut.of_pause(own.guarantee, reported, configured_ms)
    return Quiesced(
        savepoint_id=ticket.savepoint_id,
        mode=QuiesceMode.PAUSE,
        since=since,
        members=members,
        still=not why_not,
        why_not=why_not,
        assumed=assumed,
    )


def _await_commit(recovery: RecoveryContext, seconds: float) -> None:
    """Wait for a commit interval in which the group does not rebalance: until every task has its owner, Kafka Streams commits nothing. One that lasts shows
    afterwards.
    """
    notice = WaitNotice(f"{recovery.application_id} to commit what it has processed")
    deadline = time.monotonic() + seconds + recovery.config.backup.consistency.timeout_seconds
    while True:
        began, moved = time.monotonic(), False
        while (left := began + seconds - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_SECONDS))
            notice.waiting()
            moved = moved or recovery.groups.describe(recovery.application_id).state in _REBALANCES
        if not moved or time.monotonic() + seconds > deadline:
            return


def _group_problem(recovery: RecoveryContext) -> str:
    """The reason why a paused application may hold work that it has not committed, as its group tells. Empty when nothing is known against it."""
    group = recovery.groups.describe(recovery.application_id)
    if group.state in _REBALANCES:
        return f"the consumer group was in state {group.state}, and Kafka Streams commits nothing while it rebalances"
    return roll_of(recovery).problem(recovery.application_id)


def _require_on_record(recovery: RecoveryContext, ticket: Ticket) -> None:
    """Raise ``LockLost`` where this run is over, or has been let go while this step waited: nobody would bring back what it held now."""
    require_lock(recovery, ticket)
    if ticket.running:
        held = quiesce_record.left(recovery)
        if held is None or held.run != ticket.savepoint_id:
            raise _let_go_meanwhile(recovery, ticket)
        _require_not_let_go(recovery, ticket)


def _require_not_let_go(recovery: RecoveryContext, ticket: Ticket) -> None:
    """Raise ``LockLost`` where *resume* of this run is over. What was noted since is ended then."""
    if quiesce_record.was_let_go(recovery, ticket.savepoint_id):
        quiesce_record.end(recovery, of=ticket.savepoint_id)
        raise _let_go_meanwhile(recovery, ticket)


def _undo_if_let_go(recovery: RecoveryContext, ticket: Ticket) -> None:
    """Asked right after the application was held. *resume* looks once more after it has written its entry, so what was held before that is its to bring back;
    what was held after it is brought back here.
    """
    if ticket.running and quiesce_record.was_let_go(recovery, ticket.savepoint_id):
        _resumed(recovery, ticket)
        quiesce_record.end(recovery, of=ticket.savepoint_id)
        raise _let_go_meanwhile(recovery, ticket)


def _let_go_meanwhile(recovery: RecoveryContext, ticket: Ticket) -> LockLost:
    return LockLost(
        f"{recovery.application_id} was let go while savepoint {ticket.savepoint_id} was about to hold it",
        next_step="nothing is held; run the savepoint again",
    )


def _members(recovery: RecoveryContext) -> tuple[str, ...]:
    group = recovery.groups.describe(recovery.application_id)
    return tuple(sorted(member.member_id for member in group.members)) or (f"{group.kind} group, {group.state}",)


def _is_paused(status: InstanceStatus) -> bool:
    return status.state is InstanceState.RUNNING and status.streams_state == "PAUSED"


def _stop(recovery: RecoveryContext, ticket: Ticket, since: int) -> Quiesced:
    try:
        report = bring_down(recovery, confirm=lambda: _require_on_record(recovery, ticket))
    except LockLost:
        raise
    except RecoveryError:
        _undo_if_let_go(recovery, ticket)
        raise
    _undo_if_let_go(recovery, ticket)
    unclean = [i.name for i in report.instances if i.closed_cleanly is not True]
    why_not = f"not seen to close cleanly: {', '.join(unclean)}" if unclean else ""
    silent = [i.name for i in report.instances if not i.reported_closed]
    assumed = cut.of_stop(recovery.config.application.guarantee, silent, recovery.config.dialect.closed)
    return Quiesced(
        savepoint_id=ticket.savepoint_id,
        mode=QuiesceMode.STOP,
        since=since,
        members=(),
        still=report.clean,
        why_not=why_not,
        assumed=assumed,
    )


def still_held(recovery: RecoveryContext, quiesced: Quiesced) -> tuple[bool, str]:
    """True if the hold of ``quiesced`` still stands after the cut was read; and if not, why not."""
    if not quiesced.still:
        return False, quiesced.why_not
    if quiesced.mode is QuiesceMode.STOP:
        alive = [i.name for i in not_gone(recovery)]
        empty = recovery.groups.describe(recovery.application_id).empty
        return not alive and empty, f"running again during the cut: {', '.join(alive) or 'a group member'}"
    members = _members(recovery)
    if members != quiesced.members:
        return False, "the members of the group changed during the cut"
    unpaused = [status.name for status in recovery.application.status() if not _is_paused(status)]
    if unpaused:
        return False, f"resumed during the cut: {', '.join(unpaused)}"
    problem = _group_problem(recovery)
    return not problem, problem


def resume(recovery: RecoveryContext, ticket: Ticket) -> ResumeReport:
    """Bring back what ran when the savepoint began. Idempotent: repeating it, or resuming what was never held, changes nothing.

    Touches nothing once another run works on the application. Raises ``LockLost`` then, ``ApplicationNotReady`` when an instance does not come back.
    """
    if not ticket.running:
        return ResumeReport(mode=ticket.mode, instances=())
    if ticket.mode is QuiesceMode.LIVE and not _may_be_held(recovery, ticket):
        return ResumeReport(mode=ticket.mode, instances=quiesce_record.working(recovery, ticket.running) or ())
    back = _resumed(recovery, ticket)
    # Ended last: a run that is killed before leaves the record, and the next one resumes what may still be held.
    quiesce_record.let_go(recovery, ticket.savepoint_id, ticket.fallback or ticket.mode, ticket.running)
    if not quiesce_record.working(recovery, ticket.running):
        # A step that Airflow has ended may have held it meanwhile. From here on it brings back by itself what it holds.
        back = _resumed(recovery, ticket)
    return ResumeReport(mode=ticket.mode, instances=back)


def _may_be_held(recovery: RecoveryContext, ticket: Ticket) -> bool:
    """Whether this run has noted that it holds an application that was to be left alone, or could do so yet: only with its lock."""
    if ticket.fallback is None or quiesce_record.noted(recovery, ticket.savepoint_id) is not None:
        return ticket.fallback is not None
    with suppress(LockLost, Damaged):
        require_lock(recovery, ticket)
        return True
    return False


def _resumed(recovery: RecoveryContext, ticket: Ticket) -> tuple[str, ...]:
    # Of an application that was to be left alone the record tells that was written before this run touched it. Without one, a stop meanwhile was intended
    # by another.
    mode = ticket.mode if ticket.mode is not QuiesceMode.LIVE else quiesce_record.noted(recovery, ticket.savepoint_id)
    if mode is None:
        return quiesce_record.working(recovery, ticket.running) or ()
    own = quiesce_record.check_may_resume(recovery, ticket)
    if not own and quiesce_record.is_let_go(recovery, ticket.savepoint_id):
        # A task of a run that is over was cleared. What this run had held was brought back then.
        return quiesce_record.working(recovery, ticket.running) or ()
    return quiesce_record.resume(recovery, mode, ticket.running, ran=ticket.role if own else None)
