"""Going on with a restore that failed after it had begun to replace topics, from the phase its journal says."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import LockHeld, NotFound, Refused
from streams_recovery.core.ids import LATEST
from streams_recovery.core.next_command import command
from streams_recovery.core.repository.journal import Phase, RestoreScope, may_restart, reached
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.restore.open import TICKET, entries, stored_plan
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.operations.unfinished import unfinished_restore


def phase_of(recovery: RecoveryContext, ticket: RestoreTicket) -> Phase:
    """How far a restore has come."""
    return reached(entries(recovery, ticket))


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
    name = recovery.config.name
    raise LockHeld(
        f"{held.owner} holds the lock for {held.purpose}, and from here nobody can tell whether it is dead",
        next_step="wait for that run to end, or stop it. When you know that it is dead, take the lock from it",
        owner=held.owner,
        purpose=held.purpose,
        expires_at=held.expires_at,
    ).then(*((command("resume", name, restore_id, "--take-over"),) if own else (command("unlock", name, held.owner),)))


def plan_left(recovery: RecoveryContext, restore_id: str) -> RestorePlan:
    """The plan of a restore that failed, for somebody to approve again: by the repository alone nobody can tell who began it. Raises what ``resume``
    raises.
    """
    ticket = _ticket(recovery, restore_id)
    _check_resumable(recovery, ticket)
    return stored_plan(recovery, ticket)


def resume(recovery: RecoveryContext, restore_id: str, *, run_id: str, approved_hash: str, take_over: bool) -> RestoreTicket:
    """Take the lock for a restore that failed, and return its ticket under the new lock. With ``take_over`` also from the run that failed:
    should that one live after all, its job and its next step find the lock lost and end.

    Raises ``NotFound`` for an unknown restore, ``Refused`` for one that is complete, destroyed nothing yet, or was followed by another one,
    ``PlanChanged`` when it is not the plan that was approved, and ``LockHeld``.
    """
    ticket = _ticket(recovery, restore_id)
    _check_resumable(recovery, ticket)
    # Before the lock is taken from anybody: who did not approve this plan must not end a run.
    check_approved(stored_plan(recovery, ticket), approved_hash)
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
    except NotFound:
        raise NotFound(
            f"there is no restore {restore_id} of {recovery.application_id}",
            next_step="use the id that the failed run names; without an id the newest restore that failed is resumed",
            restore=restore_id,
        ).then(command("resume", recovery.config.name)) from None


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
    newest = unfinished_restore(recovery)
    if newest != ticket.restore_id and ticket.request.scope is not RestoreScope.COPIES:
        raise Refused(
            f"restore {ticket.restore_id} was followed by a later one",
            next_step=f"resume {newest}" if newest else "nothing is left to do: the later one replaced it",
            newest=newest,
        ).then(*((command("resume", recovery.config.name, newest),) if newest else ()))
