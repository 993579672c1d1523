"""The first and the last step: lock and guard, and their release."""

from __future__ import annotations

from streams_recovery import holds
from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.model import QuiesceMode
from streams_recovery.core.savepoint_id import new_id
from streams_recovery.leases import LEASE_SECONDS, under_lock
from streams_recovery.savepoints.values import FinishReport, SavepointRequest, Ticket
from streams_recovery.survey import survey
from streams_recovery.unfinished import refuse_if_unfinished
from streams_recovery.workbench import Workbench


def begin(bench: Workbench, request: SavepointRequest) -> Ticket:
    """Take the application's lock, release what crashed runs left, and guard every log that is going to be read.

    All or nothing: on any error what was taken is given back. Raises ``LockHeld`` when another run works on the application, ``Refused`` when a
    restore has left it half way.
    """
    now = bench.clock()
    lock = bench.lock.acquire(owner(request), lease_seconds=LEASE_SECONDS, purpose=f"savepoint of {bench.application_id}")
    savepoint_id = new_id(now, request.run_id)
    try:
        refuse_if_unfinished(bench)
        holds.release_copy_holds(bench)
        found = survey(bench)
        holds.guard(bench, savepoint_id, found.topics.values())
        running = tuple(i.name for i in bench.application.status() if i.state is not InstanceState.GONE)
    except BaseException:
        holds.release_copy_holds(bench)
        bench.lock.release(lock)
        raise
    policy = bench.config.backup.consistency
    mode = request.mode or policy.mode
    return Ticket(
        application_id=bench.application_id,
        savepoint_id=savepoint_id,
        request=request,
        mode=mode,
        fallback=QuiesceMode(policy.fallback) if mode is QuiesceMode.LIVE and policy.fallback != "none" else None,
        lock=lock,
        started_at=now,
        running=running,
    )


def owner(request: SavepointRequest) -> str:
    """Who holds the lock: the same for every task and every retry of one run."""
    return f"savepoint {request.run_id}"


def finish(bench: Workbench, ticket: Ticket) -> FinishReport:
    """Release the compaction guard and the lock, whatever became of the savepoint, and what restores still hold where nothing restored would
    expire by it any more. What cannot be released stays recorded, and the next run tries again; the lock goes in any case.
    """
    under_lock(bench, ticket)
    released: tuple[str, ...] = ()
    still_held: tuple[str, ...] = ()
    try:
        released = holds.release_copy_holds(bench)
        still_held = tuple(f"{topic}: restored records would expire" for topic in holds.release_restore_holds(bench))
    except RecoveryError as error:
        still_held = (str(error),)
    bench.lock.release(ticket.lock)
    return FinishReport(released=released, still_held=still_held, lock_released=True)
