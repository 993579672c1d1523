"""From an approved plan to an application that is down, and the way out when something fails before anything was destroyed."""

from __future__ import annotations

from contextlib import suppress

from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import Altered, LockHeld, RecoveryError
from streams_recovery.core.ids import new_id
from streams_recovery.core.next_command import command
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, RestoreScope, may_restart, reached, require
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.restore.plan import RestorePlan, require_agreement
from streams_recovery.core.restore.plan_check import check_plan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.operations import quiesce_record, topic_holds
from streams_recovery.operations.archive import keep_files
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, require_lock
from streams_recovery.operations.restore.move import leave, running_at, where_it_runs
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.strategies import Failover, RestoreRequest
from streams_recovery.operations.restore.values import AbandonReport, RestoreTicket, StopSummary
from streams_recovery.operations.unfinished import PLAN, restores_of, unfinished_restore
from streams_recovery.storage.append_log import AppendLog

TICKET = "restore-ticket"


def journal(recovery: RecoveryContext, ticket: RestoreTicket) -> AppendLog[JournalEntry]:
    """The restore's journal."""
    return AppendLog(recovery.repository, recovery.layout.journal(ticket.restore_id), JournalEntry)


def entries(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[JournalEntry, ...]:
    """What the journal says."""
    return tuple(journal(recovery, ticket).read_all())


def note(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    phase: Phase,
    created: tuple[CreatedTopic, ...] = (),
    *,
    result: ArtifactRef | None = None,
) -> None:
    """Write down that a phase was reached, and the ``result`` of its step. A repeated step without one writes nothing new."""
    if created or result is not None or reached(entries(recovery, ticket)) is not phase:
        entry = JournalEntry(phase=phase, at=recovery.clock(), created=created, result=result, scope=ticket.request.scope)
        journal(recovery, ticket).append(entry)


def guarded(recovery: RecoveryContext, ticket: RestoreTicket, *, at_least: Phase, before: Phase) -> tuple[JournalEntry, ...]:
    """The checks before anything that destroys: the lock is ours, and the restore is where this step belongs."""
    require_lock(recovery, ticket)
    written = entries(recovery, ticket)
    require(written, at_least=at_least, before=before)
    return written


def stored_plan(recovery: RecoveryContext, ticket: RestoreTicket) -> RestorePlan:
    """The plan this restore carries out. Raises ``Altered`` unless it is the one that was approved, and it alone is there."""
    recovery.artifacts.refuse_others(ticket.restore_id, PLAN)
    planned = recovery.artifacts.read(RestorePlan, ticket.plan)
    check_plan(planned, where=ticket.plan.key)
    if planned.hash != ticket.plan_hash:
        raise Altered(
            f"{ticket.plan.key} holds plan {planned.hash[:12]}, and {ticket.plan_hash[:12]} was approved",
            next_step="it was not used; begin a new restore and approve its plan",
            key=ticket.plan.key,
        )
    return planned


def open_restore(
    recovery: RecoveryContext, request: RestoreRequest, *, run_id: str, requested_by: str, approved_hash: str, patience: float = 0.0
) -> RestoreTicket:
    """Take the lock, for which a run of another kind is waited for ``patience`` seconds, and plan again under it. Raises ``PlanChanged`` when what would be
    done now is not what was approved, ``LockHeld``.
    """
    lock = lock_within(recovery, f"restore {run_id}", f"restore of {recovery.application_id}", patience)
    try:
        now = recovery.clock()
        if request.site is None:
            recovery.sites.require_current(recovery.site)
            recovery.sites.lift_fences()
        _keep_archived(recovery, request, run_id)
        current = plan(recovery, request)
        check_approved(current, approved_hash)
        require_agreement(current, request.safeguards)
        check_plan(current, where="the plan")
        after_unfinished = unfinished_restore(recovery)
        before = None if current.move is None else current.move.before
        running = running_at(recovery, before)
        restore_id = new_id(now, run_id, after=restores_of(recovery))
        ticket = RestoreTicket(
            application_id=recovery.application_id,
            restore_id=restore_id,
            request=request,
            requested_by=requested_by,
            plan_hash=current.hash,
            plan=recovery.artifacts.write_once(restore_id, PLAN, current),
            lock=lock,
            started_at=now,
            running=running,
            after_unfinished=after_unfinished,
            before=before,
            here=recovery.site,
        )
        recovery.artifacts.write_once(restore_id, TICKET, ticket)
        note(recovery, ticket, Phase.OPENED)
    except BaseException:
        recovery.lock.release(lock)
        raise
    return ticket


def _keep_archived(recovery: RecoveryContext, request: RestoreRequest, run_id: str) -> None:
    # What the plan names must still be there when it is loaded. Where this may not be written, the archiver removes what it has joined an hour later.
    with suppress(RecoveryError):
        keep_files(recovery, f"restore {run_id}", getattr(request, "source", ""))


def lock_within(recovery: RecoveryContext, owner: str, purpose: str, seconds: float) -> LockTicket:
    """The application's lock, once the run that has it gives it back. Raises ``LockHeld`` when that takes longer."""

    def taken() -> LockTicket | None:
        try:
            return recovery.lock.acquire(owner, lease_seconds=LEASE_SECONDS, purpose=purpose)
        except LockHeld:
            return None

    found = poll(taken, seconds=seconds, interval=1.0, what=f"the lock of {recovery.application_id}") if seconds else None
    return found or recovery.lock.acquire(owner, lease_seconds=LEASE_SECONDS, purpose=purpose)


def stop(recovery: RecoveryContext, ticket: RestoreTicket) -> StopSummary:
    """Stop every instance, prove it, and empty the group, at the site that the application leaves. Raises ``ApplicationRunning`` naming instances and members
    that remain, and what ``leave`` does.

    Until something is destroyed the stop is on record: whatever becomes of this run, the next savepoint or restore brings the application back.
    """
    written = guarded(recovery, ticket, at_least=Phase.OPENED, before=Phase.STARTED)
    with where_it_runs(recovery, ticket.before) as there:
        if ticket.before is not None and isinstance(ticket.request, Failover):
            # What was left at the site it goes to, from before it was lost, would work on beside what is restored there.
            bring_down(recovery)
            stopped = leave(recovery, ticket, there, ticket.request.lost, on_record=may_restart(reached(written)))
        else:
            if may_restart(reached(written)):
                quiesce_record.begin_stop(there, ticket.restore_id, ticket.running)
            report = bring_down(there)
            stopped = StopSummary(instances=tuple(i.name for i in report.instances), closed_cleanly=report.clean)
    if reached(entries(recovery, ticket)) is Phase.OPENED:
        note(recovery, ticket, Phase.STOPPED)
    return stopped


def abandon(recovery: RecoveryContext, ticket: RestoreTicket) -> AbandonReport:
    """Leave an unfinished restore in a state a person can trust. While nothing was destroyed, what ran before runs again; after that the
    application stays down, because it must not run on half its state. A finished restore is left alone. The lock is given back in any case.

    The application comes first, then the topics that are held. Repeating it does what is left to do, so it may be retried. Raises ``LockHeld`` while
    another run works on the application, and ``ApplicationNotReady`` when an instance does not come back: the next run tries it again.
    """
    phase = reached(entries(recovery, ticket))
    if phase is Phase.CLOSED:
        return AbandonReport(phase=phase, restarted=False, next_step="nothing: the restore is complete", commands=())
    # An earlier attempt has given the lock back, or its lease has ended: neither is a reason to leave the application down.
    lock = recovery.lock.acquire(ticket.lock.owner, lease_seconds=LEASE_SECONDS, purpose=f"end of restore {ticket.restore_id}")
    try:
        back = _bring_back(recovery, ticket, phase)
    finally:
        _give_back(recovery, lock)
    if may_restart(phase):
        return AbandonReport(phase=phase, restarted=bool(back), next_step="the application goes on as it was", commands=())
    return AbandonReport(
        phase=phase,
        restarted=bool(back),
        next_step=f"{_left_as(phase, ticket.request.scope)}; resume the restore, it goes on from here",
        commands=(resume_command(recovery, ticket),),
    )


def resume_command(recovery: RecoveryContext, ticket: RestoreTicket) -> str:
    """What goes on with a restore that has failed: it has given its lock back by then, so none of its tasks can be cleared."""
    return command("resume", recovery.config.name, ticket.restore_id, "--approve", ticket.plan_hash)


def _bring_back(recovery: RecoveryContext, ticket: RestoreTicket, phase: Phase) -> tuple[str, ...]:
    # One beside the state has stopped nothing. A later restore may have begun to destroy after this one had lost the lock.
    if (
        ticket.request.scope is not RestoreScope.STATE
        or not may_restart(phase)
        or unfinished_restore(recovery) not in (None, ticket.after_unfinished)
    ):
        return ()
    with where_it_runs(recovery, ticket.before) as there:
        return quiesce_record.resume_abandoned(there)


def _give_back(recovery: RecoveryContext, lock: LockTicket) -> None:
    try:
        topic_holds.release_copy_holds(recovery)
    finally:
        recovery.lock.release(lock)


def _left_as(phase: Phase, scope: RestoreScope) -> str:
    if scope is RestoreScope.COPIES:
        return "the copy is not whole, and the application does not use it"
    if scope is RestoreScope.TOPICS:
        return "do not start the application: its topics are not whole, or the offsets on them are not set"
    return "the application is down on purpose" if phase.rank < Phase.STARTED.rank else "the application was started on what was restored"
