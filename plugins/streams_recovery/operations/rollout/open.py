"""The beginning of a cut-over, and the way out of one that failed."""

from __future__ import annotations

from collections.abc import Iterable

from streams_recovery.application.port import closed_cleanly
from streams_recovery.core.approval import check_approved
from streams_recovery.core.errors import LockLost, RecoveryError, Refused
from streams_recovery.core.kafka_types import Guarantee
from streams_recovery.core.outputs.comparison import Against, newest_text
from streams_recovery.core.repository.lease import LockTicket
from streams_recovery.core.repository.ownership import Role, would_count
from streams_recovery.core.rollout.cutover import CutoverPlan, CutoverStep, Origin, Pair, cutover_plan, problems
from streams_recovery.core.words import command, moment_of
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ownership import entries_of
from streams_recovery.operations.renewed_lock import LEASE_SECONDS, HeldLock, require_lock
from streams_recovery.operations.rollout.discover import look, role, running
from streams_recovery.operations.rollout.values import CutoverRequest, CutoverTicket, LeftAs, newest


def plan_cutover(old: RecoveryContext, clone: RecoveryContext, request: CutoverRequest) -> CutoverPlan:
    """Plan this cut-over. Changes nothing. Raises ``Refused`` naming everything that blocks it at once."""
    return _planned(look(old, clone), clone, request)


def _planned(pair: Pair, clone: RecoveryContext, request: CutoverRequest) -> CutoverPlan:
    configured = clone.config.clone
    max_lag = 0 if configured is None else configured.max_lag
    found = problems(pair, request.step, max_lag=max_lag, restore_first=request.restore_first)
    named = ((clone.config.clone.of if clone.config.clone is not None else "", pair.old), (clone.config.name, pair.clone))
    refuse(
        found,
        f"{request.step} of {pair.clone.application_id}",
        [command(verb, name, side.unfinished) for name, side in named if side.unfinished for verb in ("resume", "dismiss")],
        lag=pair.lag,
        max_lag=max_lag,
        missing=pair.clone_ahead,
        unread=pair.old.unread,
        committed=pair.old.committed,
        retired_offsets=pair.old.retired_offsets,
    )
    return cutover_plan(pair, request.step, _compared(clone, pair.origin))


def _compared(clone: RecoveryContext, origin: Origin | None) -> str:
    """The newest comparison of the outputs since the clone was made, in words. One that began before that and ended later is of the clone before."""
    known = () if origin is None else newest(clone.repository, clone.layout)
    found = next(
        (
            one
            for one in known
            if origin is not None
            and (one.against, one.savepoint_id) == (Against.CLONE, origin.savepoint_id)
            and one.at >= moment_of(origin.restore_id)
        ),
        None,
    )
    return newest_text(found, now=clone.clock())


def refuse(found: tuple[str, ...], doing: str, commands: Iterable[str] = (), **facts: object) -> None:
    """Raise ``Refused`` with all of ``found``, if there is any, the ``commands`` that remove causes, and the ``facts``. ``doing`` completes the sentence "...
    cannot begin".
    """
    if found:
        raise Refused(
            f"{doing} cannot begin, nothing was changed. " + " ".join(f"({number}) {one}." for number, one in enumerate(found, 1)),
            next_step="remove each of these causes, then run it again; step roll_back goes back to the old application whatever was begun",
            findings=list(found),
            **facts,
        ).then(*commands)


def open_cutover(
    old: RecoveryContext, clone: RecoveryContext, request: CutoverRequest, *, run_id: str, requested_by: str, approved_hash: str
) -> CutoverTicket:
    """Take the locks of both and plan again under them. Raises ``PlanChanged`` when that is another plan than the approved one, ``LockHeld``, and
    ``Refused`` for a run that has transferred outputs before another one did.
    """
    first, second = _locks(old, clone, run_id, f"{request.step} of {clone.application_id}, a clone of {old.application_id}")
    try:
        planned = _planned(look(old, clone), clone, request)
        check_approved(planned, approved_hash)
        _require_counts(old, clone, request.step, run_id)
    except BaseException:
        clone.lock.release(second)
        old.lock.release(first)
        raise
    return CutoverTicket(
        step=request.step,
        run=run_id,
        requested_by=requested_by,
        reason=request.reason,
        plan_hash=planned.hash,
        old=HeldLock(lock=first),
        clone=HeldLock(lock=second),
        running=tuple(application_id for application_id, alive in planned.running.items() if alive),
        restore_first=request.restore_first,
        started_at=clone.clock(),
    )


def _require_counts(old: RecoveryContext, clone: RecoveryContext, step: CutoverStep, run_id: str) -> None:
    """Raise ``Refused`` for a run whose entries would not count: each would be on record as what the other log does not say."""
    wanted = Role.LIVE if step is CutoverStep.CUT_OVER else Role.STANDBY
    logs = entries_of(clone.ownership), entries_of(old.ownership)
    if not would_count(run_id, wanted, *logs, application_id=clone.application_id, of=old.application_id):
        raise Refused(
            f"run {run_id} has transferred outputs between {old.application_id} and {clone.application_id} before, and another run has since",
            next_step="nothing was changed; begin a new run instead of repeating this one",
            run=run_id,
        )


def _locks(old: RecoveryContext, clone: RecoveryContext, run_id: str, purpose: str) -> tuple[LockTicket, LockTicket]:
    first = old.lock.acquire(f"cut-over {run_id}", lease_seconds=LEASE_SECONDS, purpose=purpose)
    try:
        return first, clone.lock.acquire(f"cut-over {run_id}", lease_seconds=LEASE_SECONDS, purpose=purpose)
    except BaseException:
        old.lock.release(first)
        raise


def hold_both(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> None:
    """Prove that both locks are still this run's, and extend them. Raises ``LockLost``."""
    require_lock(old, ticket.old)
    require_lock(clone, ticket.clone)


def release_both(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> None:
    """Give both locks back."""
    clone.lock.release(ticket.clone.lock)
    old.lock.release(ticket.old.lock)


def abandon(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> LeftAs:
    """Leave an unfinished cut-over in the state on record: before the transfer of the outputs the applications that ran run again, after it their present
    writer runs. A cut-over that is finished, or that another run has taken over, is left alone.

    Raises what a start raises; the locks are kept then, so that it may be tried again.
    """
    try:
        hold_both(old, clone, ticket)
    except LockLost:
        # A run that died while it released both locks may have left one. A lock of another run is not touched.
        release_both(old, clone, ticket)
        return LeftAs(
            roles=_roles(old, clone), started=(), next_step="nothing: the cut-over is over, or another run works on it", commands=()
        )
    started: list[str] = []
    failure: RecoveryError | None = None
    for recovery in (old, clone):
        if _is_to_run(recovery, old, ticket) and not running(recovery):
            try:
                recovery.application.start()
                quiesce_record.end(recovery, of=ticket.run)
                started.append(recovery.application_id)
            except RecoveryError as error:
                failure = error
    if failure is not None:
        raise failure
    release_both(old, clone, ticket)
    next_step, commands = _next_step(old, clone, ticket)
    return LeftAs(roles=_roles(old, clone), started=tuple(started), next_step=next_step, commands=commands)


def again_command(clone: RecoveryContext, ticket: CutoverTicket) -> str:
    """The command that takes this step of a clone once more."""
    if ticket.step is CutoverStep.ROLL_BACK:
        return _roll_back(clone, ticket, *(("--restore-first",) if ticket.restore_first else ()))
    return command("cut-over", clone.config.name, "--reason", ticket.reason)


def _roll_back(clone: RecoveryContext, ticket: CutoverTicket, *options: str) -> str:
    return command("roll-back", clone.config.name, "--reason", ticket.reason, *options)


def _is_to_run(recovery: RecoveryContext, old: RecoveryContext, ticket: CutoverTicket) -> bool:
    now, last = role(recovery), recovery.ownership.last()
    ran = recovery.application_id in ticket.running
    if now is Role.LIVE:
        return ran or (last is not None and last.run == ticket.run and not ticket.restore_first)
    # Beside an application that was replaced already the clone would read on, and the output of what it read would be missing for ever.
    waits = now is Role.STANDBY and ticket.step is CutoverStep.CUT_OVER and role(old) is not Role.RETIRED
    return ran and waits and _trusted(recovery)


def _trusted(recovery: RecoveryContext) -> bool:
    exactly_once = recovery.config.application.guarantee is Guarantee.EXACTLY_ONCE_V2
    return exactly_once or closed_cleanly(recovery.application.status())


def _next_step(old: RecoveryContext, clone: RecoveryContext, ticket: CutoverTicket) -> tuple[str, tuple[str, ...]]:
    """The next step, and the commands for it."""
    again = again_command(clone, ticket)
    if role(old) is Role.RETIRED and ticket.step is CutoverStep.CUT_OVER:
        text = f"run cut_over again to finish it, or roll_back: {old.application_id} stays down until then"
        return text, (again, _roll_back(clone, ticket))
    if role(old) is Role.RETIRED:
        return f"run roll_back again to finish it: {old.application_id} stays down until then", (again,)
    if role(clone) is Role.STANDBY and ticket.step is CutoverStep.CUT_OVER:
        return "no output was transferred; see why it failed and run it again", (again,)
    return f"run {ticket.step} again to finish it", (again,)


def _roles(old: RecoveryContext, clone: RecoveryContext) -> dict[str, Role]:
    return {recovery.application_id: role(recovery) for recovery in (old, clone)}
