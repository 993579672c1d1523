"""Applications that a savepoint or a restore holds still, written down before it happens: if the run is killed, the next one knows what to bring back."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile

from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.core.errors import ApplicationNotReady, Damaged, LockLost, NoRoom
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.ownership import Role
from streams_recovery.core.savepoint.cut import QuiesceRecord, why_not_brought_back
from streams_recovery.core.scheduled_run import RunEntry
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ownership import start_again
from streams_recovery.operations.renewed_lock import Locked, require_lock
from streams_recovery.operations.unfinished import has_destroyed, unfinished_restore
from streams_recovery.storage.append_log import AppendLog

LOGGER = logger("streams_recovery.operations.quiesce_record")
# States of an instance that ends, by itself or because it failed.
ENDING = ("PENDING_ERROR", "ERROR", "PENDING_SHUTDOWN", "NOT_RUNNING")
_SETTLE_SECONDS = 2.0
# Entries among which those of a run are looked for.
_NEWEST = 200


def quiesce_log(recovery: RecoveryContext) -> AppendLog[QuiesceRecord]:
    """The log, of which two entries a savepoint are written and one is ever read."""
    return AppendLog(recovery.repository, recovery.layout.quiesce_records, QuiesceRecord)


def run_log(recovery: RecoveryContext) -> AppendLog[RunEntry]:
    """The log of runs of an application that is down in between."""
    return AppendLog(recovery.repository, recovery.layout.scheduled_runs, RunEntry)


def left(recovery: RecoveryContext) -> QuiesceRecord | None:
    """The quiesce that has begun and not ended, None when there is none. That of a restore that has begun to destroy counts no more: the restore's journal says
    what is to be done with the application. An unreadable entry is passed over: one strange object must not end all runs.
    """
    last = next(quiesce_log(recovery).readable_back(), None)
    if last is None or last.kind == "ended" or has_destroyed(recovery, last.run):
        return None
    return last


def at_work(recovery: RecoveryContext) -> tuple[str, ...]:
    """Instances that run, and those that would if a run that is dead had not left them stopped."""
    held, statuses = left(recovery), recovery.application.status()
    stopped = held.instances if held is not None and held.mode is QuiesceMode.STOP and _why_not(recovery, held, statuses) is None else ()
    return tuple(i.name for i in statuses if i.state is not InstanceState.GONE or i.name in stopped)


def _why_not(recovery: RecoveryContext, held: QuiesceRecord, statuses: Iterable[InstanceStatus]) -> str | None:
    """The reason why what the record says was stopped is not started again: the record is data, what the application itself has on record is proof."""
    gone = {one.name: one.stopped_here for one in statuses if one.name in held.instances and one.state is InstanceState.GONE}
    newest = next(run_log(recovery).readable_back(), None) if recovery.config.run.schedule is not None else None
    between = newest is not None and newest.kind == "ended"
    return why_not_brought_back(gone, age_ms=recovery.clock() - held.at, between_runs=between)


def begin(recovery: RecoveryContext, run: str, mode: QuiesceMode, instances: tuple[str, ...]) -> None:
    """Write down that ``run`` is about to hold these instances, so that a later run brings them back if this one dies."""
    quiesce_log(recovery).append(QuiesceRecord(kind="begins", run=run, mode=mode, instances=instances, at=recovery.clock()))


def begin_stop(recovery: RecoveryContext, run: str, instances: tuple[str, ...]) -> None:
    """Write down that ``run`` is about to stop these instances, and those that have been started since. Nothing when it was written before, or when
    none is there.
    """
    held = left(recovery)
    if held is None or held.run != run:
        stopping = tuple(dict.fromkeys((*instances, *at_work(recovery))))
        if stopping:
            begin(recovery, run, QuiesceMode.STOP, stopping)


def end(recovery: RecoveryContext, *, of: str | None = None) -> None:
    """Write down that nothing is held any more; only what the run ``of`` held, when it is given. Harmless when nothing is."""
    held = left(recovery)
    if held is not None and of in (None, held.run):
        quiesce_log(recovery).append(
            QuiesceRecord(kind="ended", run=held.run, mode=held.mode, instances=held.instances, at=recovery.clock())
        )


def let_go(recovery: RecoveryContext, run: str, mode: QuiesceMode, instances: tuple[str, ...]) -> None:
    """Write down that ``run`` holds nothing any more, and is not to hold anything later: a task of it may go on for seconds after Airflow has ended it. Nothing
    when it was written before, or when another run holds the application.
    """
    held = left(recovery)
    if was_let_go(recovery, run) if held is None else held.run != run:
        return
    quiesce_log(recovery).append(QuiesceRecord(kind="ended", run=run, mode=mode, instances=instances, at=recovery.clock()))


def was_let_go(recovery: RecoveryContext, run: str) -> bool:
    """True once ``let_go`` was called for this run, also if it has noted a hold since."""
    own = takewhile(lambda entry: entry.run == run, quiesce_log(recovery).readable_back())
    return any(entry.kind == "ended" for entry in own)


def is_let_go(recovery: RecoveryContext, run: str) -> bool:
    """True if this run has held the application and holds it no more, whatever others have held since. What is down then is down for another reason."""
    newest = next((entry for entry in islice(quiesce_log(recovery).readable_back(), _NEWEST) if entry.run == run), None)
    return newest is not None and newest.kind == "ended"


def noted(recovery: RecoveryContext, run: str) -> QuiesceMode | None:
    """The mode in which this run has noted that it holds the application, also if that has ended since."""
    own = takewhile(lambda entry: entry.run == run, quiesce_log(recovery).readable_back())
    return next((entry.mode for entry in own if entry.kind == "begins"), None)


def resume_abandoned(recovery: RecoveryContext) -> tuple[str, ...]:
    """Bring back what a run that is dead has left paused or stopped, and return the instances. Only for the holder of the application's lock.

    A paused instance that has been stopped since stays down: a person or another program stopped it. So does an instance that is not proven to be down because
    of a run. Raises ``ApplicationNotReady``.
    """
    held = left(recovery)
    if held is None:
        return ()
    statuses = recovery.application.status()
    stopped = held.mode is QuiesceMode.STOP
    instances = tuple(one.name for one in statuses if one.name in held.instances and (stopped or one.state is not InstanceState.GONE))
    why_not = _why_not(recovery, held, statuses) if stopped else None
    if why_not is not None:
        LOGGER.warning(
            "%s of %s are left stopped although a record says that run %s has stopped them: %s; start them if they are to run",
            ", ".join(instances),
            recovery.application_id,
            held.run,
            why_not,
        )
        instances = ()
    elif instances:
        LOGGER.warning(
            "%s of %s are brought back, which run %s has held in mode %s",
            ", ".join(instances),
            recovery.application_id,
            held.run,
            held.mode,
        )
    back = resume(recovery, held.mode, instances)
    end(recovery)
    return back


def resume(recovery: RecoveryContext, mode: QuiesceMode, instances: tuple[str, ...], *, ran: Role | None = None) -> tuple[str, ...]:
    """Start or resume, and wait until each of ``instances`` works. ``ran``: what they were when this very run held them, which has had the lock since. Raises
    ``ApplicationNotReady`` when one does not come back, or ends after it was resumed: then it was started again.
    """
    resumed = bool(instances) and mode is QuiesceMode.PAUSE
    if instances and mode is QuiesceMode.STOP:
        start_again(recovery.application, ran=ran)
    elif resumed:
        recovery.application.resume()

    def settled() -> tuple[str, ...] | None:
        # One may end while another is still waited for.
        return () if resumed and _ended(recovery, instances) else working(recovery, instances)

    what = f"{len(instances)} instances of {recovery.application_id} to come back"
    start_timeout = recovery.config.runs.chosen.start_timeout
    back = poll(settled, seconds=start_timeout, interval=0.25, what=what, message=lambda: _states(recovery))
    if back is None:
        states = _states(recovery)
        raise ApplicationNotReady(
            f"not every instance of {recovery.application_id} came back: {states}",
            next_step="look at the instances' logs and start or resume them by hand",
            states=states,
        )
    if resumed:
        _check_stayed(recovery, instances, ran=ran)
    return back


def _states(recovery: RecoveryContext) -> str:
    return ", ".join(f"{i.name} {i.state} {i.streams_state}" for i in recovery.application.status())


def _check_stayed(recovery: RecoveryContext, instances: tuple[str, ...], *, ran: Role | None) -> None:
    """Kafka Streams to 4.3.1 ends an application with standby tasks a moment after it was resumed (KAFKA-20731). Without this check that would go unnoticed."""
    ended = poll(lambda: _ended(recovery, instances) or None, seconds=_SETTLE_SECONDS, interval=0.25)
    if ended is None:
        return
    # One that fails ends by itself, and is started only once it has.
    what = f"{', '.join(ended)} of {recovery.application_id} to end"
    start_timeout = recovery.config.runs.chosen.start_timeout
    poll(lambda: not _ended(recovery, instances, but=InstanceState.GONE) or None, seconds=start_timeout, interval=0.25, what=what)
    start_again(recovery.application, ran=ran)
    what = f"{', '.join(ended)} of {recovery.application_id} to work again"
    back = poll(lambda: working(recovery, instances), seconds=start_timeout, interval=0.25, what=what)
    raise ApplicationNotReady(
        f"{', '.join(ended)} of {recovery.application_id} ended after the pause, and {'were started again' if back else 'did not come back'}",
        next_step="see the instances' logs; if the application has standby replicas, say so in its configuration (application.standby_replicas) and take "
        "savepoints in mode stop or live; if it was warming up tasks after a restart, see docs/configuration.md",
        instances=ended,
    )


def _ended(recovery: RecoveryContext, instances: tuple[str, ...], *, but: InstanceState | None = None) -> list[str]:
    found = [status for status in recovery.application.status() if status.name in instances and status.state is not but]
    return [status.name for status in found if status.state is InstanceState.GONE or status.streams_state in ENDING]


def working(recovery: RecoveryContext, instances: tuple[str, ...]) -> tuple[str, ...] | None:
    """``instances`` when each of them runs and is not paused, else None."""
    states = {status.name: status for status in recovery.application.status()}
    alive = [name for name in instances if name in states and states[name].state is InstanceState.RUNNING]
    fine = [name for name in alive if states[name].streams_state not in (None, "PAUSED", "CREATED", *ENDING)]
    return tuple(fine) if len(fine) == len(instances) else None


def check_may_resume(recovery: RecoveryContext, ticket: Locked) -> bool:
    """True while the lock is still this run's. Raise ``LockLost`` when another run works on the application by now, or a restore has left it half way.

    The run knows which instances stood still when it began, and may let go those that it holds itself. A lock that merely ended is no reason to leave an
    application down. Nor is an unreadable record of the lock: no run gets the lock behind that. Raises ``Damaged`` for such a record while a restore is
    unfinished.
    """
    try:
        require_lock(recovery, ticket)
    except LockLost:
        if recovery.lock.holder() is not None or unfinished_restore(recovery) is not None:
            raise
        return False
    except NoRoom:
        # It cannot be extended where nothing can be written. Nor can another run take it: whose it is can be read.
        if not recovery.lock.holds(ticket.lock):
            raise
    except Damaged as error:
        LOGGER.warning("%s is let go although nobody can tell who holds its lock: %s", recovery.application_id, error.reason)
        recovery.lock.check_no_other_owner(ticket.lock)
        if unfinished_restore(recovery) is not None:
            raise
        return False
    return True
