"""The beginning of a restore: from an approved plan to an application that is down, or back to one that runs when something fails before anything was
destroyed. A restore that failed after that is resumed from the phase its journal says.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import Altered, LockHeld, NotFound, RecoveryError, Refused
from streams_recovery.core.remedies.locks import take_lock
from streams_recovery.core.repository.journal import (
    CreatedTopic,
    JournalEntry,
    Phase,
    RestoreScope,
    may_restart,
    reached,
    require,
    result_of,
)
from streams_recovery.core.repository.lease import LockRecord, LockTicket
from streams_recovery.core.restore.plan import RestorePlan, check_plan, require_agreement
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.core.words import LATEST, command, new_id
from streams_recovery.operations import quiesce_record, topic_holds
from streams_recovery.operations.archive import keep_files
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ownership import refuse_stop
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, require_lock
from streams_recovery.operations.restore.move import leave, running_at, where_it_runs
from streams_recovery.operations.restore.plan import as_approved, plan
from streams_recovery.operations.restore.strategies import Rescale, RestoreRequest
from streams_recovery.operations.restore.values import AbandonReport, GivenUp, RestoreTicket, StopSummary
from streams_recovery.operations.unfinished import (
    PLAN,
    half_there,
    journal_of,
    restores_of,
    unfinished_restore,
)

TICKET: Final = "restore-ticket"
GIVEN_UP: Final = "given-up"
E = TypeVar("E", bound=RecoveryError)


def entries(recovery: RecoveryContext, ticket: RestoreTicket) -> tuple[JournalEntry, ...]:
    """The entries of the journal of a restore, oldest first."""
    return tuple(journal_of(recovery, ticket.restore_id).read_all())


def phase_of(recovery: RecoveryContext, ticket: RestoreTicket) -> Phase:
    """The phase that a restore has reached."""
    return reached(entries(recovery, ticket))


def is_half_way(recovery: RecoveryContext, ticket: RestoreTicket) -> bool:
    """True for a restore that has begun to replace something, is not over, and that no other run goes on with. Also where the repository does not say how far
    it came.
    """
    try:
        phase = phase_of(recovery, ticket)
        return phase is not Phase.CLOSED and not may_restart(phase) and recovery.lock.holder() is None
    except RecoveryError:
        return True


def note(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    phase: Phase,
    created: tuple[CreatedTopic, ...] = (),
    *,
    result: ArtifactRef | None = None,
) -> None:
    """Write down that a phase was reached, and the ``result`` of its step. A repeated step without one writes nothing new."""
    if created or result is not None or phase_of(recovery, ticket) is not phase:
        entry = JournalEntry(phase=phase, at=recovery.clock(), created=created, result=result, scope=ticket.request.scope)
        journal_of(recovery, ticket.restore_id).append(entry)


def guarded(recovery: RecoveryContext, ticket: RestoreTicket, *, at_least: Phase, before: Phase) -> tuple[JournalEntry, ...]:
    """The checks before anything that destroys: the lock is ours, and the restore is where this step belongs."""
    require_lock(recovery, ticket)
    written = entries(recovery, ticket)
    require(written, at_least=at_least, before=before)
    return written


def stored_plan(recovery: RecoveryContext, ticket: RestoreTicket) -> RestorePlan:
    """The plan that this restore carries out: the approved one, or in its place the one that its journal names, once records are placed anew. Raises as
    ``approved_plan`` does.
    """
    approved = approved_plan(recovery, ticket)
    placed = result_of(entries(recovery, ticket), Phase.SAVED) if ticket.request.KIND == Rescale.KIND else None
    if placed is None:
        return approved
    planned = recovery.artifacts.read_own(RestorePlan, ticket.restore_id, placed)
    check_plan(planned, where=placed.key)
    return planned


def approved_plan(recovery: RecoveryContext, ticket: RestoreTicket) -> RestorePlan:
    """The plan that was approved. Raises ``Altered`` if it is another one, or if other plans are beside it."""
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
        request = as_approved(request, approved_hash)
        current = plan(recovery, request)
        check_approved(current, approved_hash)
        require_agreement(current, request.safeguards)
        check_plan(current, where="the plan")
        after_unfinished = unfinished_restore(recovery)
        before = None if current.part.move is None else current.part.move.before
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
            cluster_id=recovery.cluster.cluster_id(),
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
        if ticket.before is not None:
            # What was left at the site it goes to, from before it was lost, would work on beside what is restored there.
            bring_down(recovery)
            stopped = leave(recovery, ticket, there, ticket.request.lost, on_record=may_restart(reached(written)))
        else:
            if may_restart(reached(written)):
                refuse_stop(there.application)
                quiesce_record.begin_stop(there, ticket.restore_id, ticket.running)
            report = bring_down(there, confirm=lambda: require_lock(recovery, ticket))
            stopped = StopSummary(instances=tuple(i.name for i in report.instances), closed_cleanly=report.clean)
    if phase_of(recovery, ticket) is Phase.OPENED:
        note(recovery, ticket, Phase.STOPPED)
    return stopped


def abandon(recovery: RecoveryContext, ticket: RestoreTicket) -> AbandonReport:
    """Leave an unfinished restore in a state a person can trust. While nothing was destroyed, what ran before runs again; after that the
    application stays down, because it must not run on half its state. A finished restore is left alone. The lock is given back in any case.

    The application comes first, then the topics that are held. A step of this restore that still runs, because Airflow ends a task seconds after it has failed
    it, finds the lock lost. Repeating it does what is left to do, so it may be retried. Raises ``LockHeld`` while another run works on the application, and
    ``ApplicationNotReady`` when an instance does not come back: the next run tries it again.
    """
    if phase_of(recovery, ticket) is Phase.CLOSED:
        # Killed between its last note and this.
        recovery.lock.release(ticket.lock)
        return AbandonReport(phase=Phase.CLOSED, restarted=False, next_step="nothing: the restore is over", commands=())
    lock = end_lock(recovery, ticket, f"end of restore {ticket.restore_id}")
    try:
        # Only now: until the lock was lost, a step might have begun to destroy.
        phase = phase_of(recovery, ticket)
        back = _bring_back(recovery, ticket, phase)
    finally:
        _give_back(recovery, lock)
    if may_restart(phase):
        return AbandonReport(phase=phase, restarted=bool(back), next_step="the application goes on as it was", commands=())
    if given_up(recovery, ticket.restore_id) is not None:
        return AbandonReport(phase=phase, restarted=False, next_step="this restore cannot go on, its error says what to do", commands=())
    return AbandonReport(
        phase=phase,
        restarted=bool(back),
        next_step=f"{_left_as(phase, ticket.request.scope)}; resume the restore, it goes on from here",
        commands=(resume_command(recovery, ticket),),
    )


def end_lock(recovery: RecoveryContext, ticket: RestoreTicket, purpose: str) -> LockTicket:
    """The lock for the end of a restore, as an acquisition of its own: whatever step of the restore still runs has lost it. An earlier attempt may have given
    it back, or its lease may have ended: neither is a reason to leave the application down. Raises ``LockHeld``.
    """
    recovery.lock.release(ticket.lock)
    return recovery.lock.acquire(ticket.lock.owner, lease_seconds=LEASE_SECONDS, purpose=purpose)


def resume_command(recovery: RecoveryContext, ticket: RestoreTicket) -> str:
    """The command that goes on with a restore that has failed: it has given its lock back by then, so none of its tasks can be cleared."""
    return command("resume", recovery.config.name, ticket.restore_id, "--approve", ticket.plan_hash, *recovery.config.storage.place_option)


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
    if phase.rank < Phase.STARTED.rank:
        return "the application is down on purpose"
    return "the application was started on what was restored, or was about to be"


def give_up(recovery: RecoveryContext, ticket: RestoreTicket, error: E) -> E:
    """Write down that this restore is not to be resumed, because the application has worked on something else than what was restored; and return its error,
    which says so. What it left is not saved as a state either.
    """
    with suppress(Altered):
        # The first reason stays.
        recovery.artifacts.write_once(ticket.restore_id, GIVEN_UP, GivenUp(reason=error.reason, next_step=error.next_step))
    return error


def given_up(recovery: RecoveryContext, restore_id: str) -> GivenUp | None:
    """Why a restore is not to be resumed, None where nothing says so."""
    with suppress(NotFound):
        return recovery.artifacts.read_once(GivenUp, restore_id, GIVEN_UP)
    return None


def unfinished_one(recovery: RecoveryContext, restore_id: str) -> str:
    """The id of the restore to resume: for ``latest`` the newest one that began to replace topics and is not finished. Raises ``NotFound``."""
    if restore_id != LATEST:
        return restore_id
    found = unfinished_restore(recovery)
    if found is None:
        raise NotFound(
            f"no restore of {recovery.application_id} is half way",
            next_step="there is nothing to resume; one that failed before it replaced anything is begun again as a new restore",
        )
    return found


def check_free(recovery: RecoveryContext, restore_id: str, *, take_over: bool) -> None:
    """Raise ``LockHeld`` while a run that may be alive has the lock, before anybody is asked. With ``take_over`` that of this restore's own run counts as
    dead. A run whose process is proven dead needs no such word.
    """
    held = recovery.lock.holder()
    if held is None or recovery.lock.is_proven_dead(held):
        return
    own = _is_of(held, _ticket(recovery, restore_id))
    if own and take_over:
        return
    name, options = recovery.config.name, recovery.config.storage.place_option
    remedy = take_lock(name, held.owner, held.place, options=options)
    raise LockHeld(
        f"{held.owner} holds the lock for {held.purpose}, and from here nobody can tell whether it is dead",
        next_step=str(remedy),
        owner=held.owner,
        purpose=held.purpose,
        expires_at=held.expires_at,
    ).then(*((command("resume", name, restore_id, "--take-over", *options),) if own else remedy.commands))


def plan_left(recovery: RecoveryContext, restore_id: str) -> RestorePlan:
    """The plan of a restore that failed, to be approved again: the repository alone cannot prove who began it. Raises what ``resume``
    raises.
    """
    ticket = _ticket(recovery, restore_id)
    _check_resumable(recovery, ticket)
    return approved_plan(recovery, ticket)


def resume(recovery: RecoveryContext, restore_id: str, *, run_id: str, approved_hash: str, take_over: bool) -> RestoreTicket:
    """Take the lock for a restore that failed, and return its ticket under the new lock. With ``take_over`` also from the run that failed:
    should that one live after all, its job and its next step find the lock lost and end.

    Raises ``NotFound`` for an unknown restore, ``Refused`` for one that is complete, destroyed nothing yet, or was followed by another one,
    ``PlanChanged`` when it is not the plan that was approved, and ``LockHeld``.
    """
    ticket = _ticket(recovery, restore_id)
    _check_resumable(recovery, ticket)
    # Before the lock is taken from anybody: who did not approve this plan must not end a run.
    check_approved(approved_plan(recovery, ticket), approved_hash)
    if take_over:
        held = recovery.lock.holder()
        if held is not None and _is_of(held, ticket):
            recovery.lock.take_from(held.owner)
    lock = recovery.lock.acquire(f"restore {run_id}", lease_seconds=LEASE_SECONDS, purpose=_purpose(restore_id))
    try:
        # Again under the lock: before it was ours, another run may have finished this restore or begun a later one.
        _check_resumable(recovery, ticket)
        return replace(ticket, lock=lock)
    except BaseException:
        recovery.lock.release(lock)
        raise


def _purpose(restore_id: str) -> str:
    return f"restore {restore_id}, resumed"


def _is_of(held: LockRecord, ticket: RestoreTicket) -> bool:
    # A run that has resumed it is another owner. Its purpose names the restore.
    return held.owner == ticket.lock.owner or held.purpose == _purpose(ticket.restore_id)


def _ticket(recovery: RecoveryContext, restore_id: str) -> RestoreTicket:
    try:
        return recovery.artifacts.read_once(RestoreTicket, restore_id, TICKET)
    except NotFound as error:
        if (half := half_there(recovery, restore_id, error)) is not error:
            raise half from None
        raise NotFound(
            f"there is no restore {restore_id} of {recovery.application_id}",
            next_step="use the id that the failed run names; without an id the newest restore that failed is resumed",
            restore=restore_id,
        ).then(command("resume", recovery.config.name, *recovery.config.storage.place_option)) from None


def _check_resumable(recovery: RecoveryContext, ticket: RestoreTicket) -> None:
    phase = phase_of(recovery, ticket)
    if ticket.site not in (None, recovery.site):
        raise Refused(
            f"restore {ticket.restore_id} works at the site {ticket.site}, and {ticket.application_id} is on record at {recovery.site}",
            next_step="find out who has moved it (the command `sites` shows the record); the restore goes on only where its plan was made",
            site=ticket.site,
            here=recovery.site,
        )
    if phase is Phase.CLOSED:
        raise Refused(f"restore {ticket.restore_id} is over", next_step="nothing is left to do; to restore again, begin a new one")
    if may_restart(phase):
        raise Refused(
            f"restore {ticket.restore_id} failed in phase {phase}, before it had replaced anything",
            next_step="begin a new restore: its plan is made of what is there now",
            phase=phase.value,
        )
    if (why := given_up(recovery, ticket.restore_id)) is not None:
        raise Refused(f"restore {ticket.restore_id} cannot go on: {why.reason}", next_step=why.next_step)
    here = ticket.cluster_id and recovery.cluster.cluster_id()
    if here != ticket.cluster_id:
        raise Refused(
            f"restore {ticket.restore_id} was begun on the cluster {ticket.cluster_id}, and the connection of {ticket.application_id} leads to {here}",
            next_step="lead it to that cluster again; on this one begin a new restore: where the inputs go on was found out of the other one's",
            cluster=ticket.cluster_id,
            here=here,
        )
    newest = unfinished_restore(recovery)
    if newest != ticket.restore_id and ticket.request.scope is not RestoreScope.COPIES:
        raise Refused(
            f"restore {ticket.restore_id} was followed by a later one",
            next_step=f"resume {newest}" if newest else "nothing is left to do: the later one replaced it",
            newest=newest,
        ).then(*((command("resume", recovery.config.name, newest, *recovery.config.storage.place_option),) if newest else ()))
