"""Running an application that is down between its runs: from a start to where its input ended then, or for a while, and down again.

Start and stop each hold the application's lock for as long as they take. Between them it is free: savepoints may be taken, and a restore may
come in between and leave the application in any state, which the stop then accepts.

A run records an application before it starts it. So the next run can tell the application of a dead run from one that was started from outside: it takes the
former over, starts its missing instances, and stops it at its own end.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from streams_recovery.core.errors import ApplicationRunning, RecoveryError, Refused
from streams_recovery.core.escaping import logger
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.scheduled_run import Limit, RunEntry, ScheduledRun, is_over, processed, under_way
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.bring_down import bring_down
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.lag import RecordLag, measure, own_partitions
from streams_recovery.operations.renewed_lock import HeldLock, held_lock
from streams_recovery.operations.unfinished import refuse_if_unfinished

LOGGER = logger("streams_recovery.operations.scheduled_run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRunReport:
    """The result of a run, as it was found when the application was down. ``processed`` counts offsets by partition, ``gone`` the offsets that were deleted
    unread, ``behind`` those left below the ends that the run was to reach. ``unread`` counts those left in topics that the application writes for itself: input
    after the ends has caused them, and the next run begins with them. Partitions without a record left are in neither of the last two.
    """

    run_id: str
    seconds: float
    processed: dict[TopicPartition, int]
    gone: dict[TopicPartition, int]
    behind: dict[TopicPartition, int]
    unread: dict[TopicPartition, int]
    closed_cleanly: bool


def begin(recovery: RecoveryContext, limit: Limit, *, run_id: str) -> ScheduledRun:
    """Capture where the inputs end, and start the application. With nothing unread and no time to run for, nothing is started. Repeating it goes on with
    what it began, and starts what is missing. Instances that an earlier run has started and not stopped are taken over: runs of one application do not overlap.

    Raises ``ApplicationRunning`` when an instance runs already that no run has started: something else starts this application and may need it after this run's
    end. Raises ``Refused`` after a restore that failed, ``NotFound`` for inputs that do not exist, and ``LockHeld``. When an instance cannot be started, those
    that could are stopped again.
    """
    with _locked(recovery, run_id, "start"):
        refuse_if_unfinished(recovery)
        quiesce_record.resume_abandoned(recovery)
        alive = [f"{i.name} ({i.detail})" for i in not_gone(recovery)]
        earlier = under_way(next(quiesce_record.run_log(recovery).readable_back(), None))
        if earlier is not None and earlier.run_id == run_id:
            return _started(recovery, earlier)
        if alive and earlier is None:
            raise ApplicationRunning(
                f"{recovery.application_id} runs already: {', '.join(alive)}",
                next_step="a run of this kind needs an application that is down in between: stop it, or leave it to whatever starts it",
                instances=alive,
            )
        inputs = input_partitions(recovery)
        ends = recovery.cluster.last_stable_offsets(inputs)
        lags = measure(recovery, inputs)
        now = recovery.clock()
        until = limit.until(now)
        begun = ScheduledRun(
            run_id=run_id,
            started_at=now,
            until=until,
            ends=ends,
            before={tp: lag.position for tp, lag in lags.items()},
            gone={tp: lag.gone for tp, lag in lags.items() if lag.gone},
            instances=(),
        )
        if not alive and until is None and not any(_unread(recovery, ends)):
            if earlier is not None:
                _note(recovery, "ended", earlier)
            return begun
        if earlier is not None:
            LOGGER.warning(
                "run %s of %s began and did not end, and left %s: run %s goes on with that",
                earlier.run_id,
                recovery.application_id,
                ", ".join(alive) or "nothing running",
                run_id,
            )
        _note(recovery, "begins", begun)
        return _started(recovery, begun)


def _started(recovery: RecoveryContext, run: ScheduledRun) -> ScheduledRun:
    try:
        recovery.application.start()
    except RecoveryError:
        # What one instance of several could not do leaves none of them running. What cannot be stopped stays on record.
        with suppress(RecoveryError):
            bring_down(recovery)
            _note(recovery, "ended", run)
        raise
    return replace(run, instances=tuple(i.name for i in not_gone(recovery)))


def _note(recovery: RecoveryContext, kind: Literal["begins", "ended"], run: ScheduledRun) -> None:
    quiesce_record.run_log(recovery).append(RunEntry(kind=kind, at=recovery.clock(), run=run))


def _locked(recovery: RecoveryContext, run_id: str, what: str) -> AbstractContextManager[HeldLock]:
    return held_lock(recovery, f"scheduled run {run_id}", purpose=f"{what} of a scheduled run of {recovery.application_id}")


def end(recovery: RecoveryContext, run: ScheduledRun) -> ScheduledRunReport:
    """Stop the application and prove that it is down. Idempotent. Raises ``ApplicationRunning`` naming what remains, and ``LockHeld`` while another
    run works on the application: then it is stopped later. Raises ``Refused`` where a later run works with it, or where it was started after this run's end.
    """
    with _locked(recovery, run.run_id, "stop"):
        _refuse_if_over(recovery, run)
        report = bring_down(recovery)
        # What a savepoint or a restore that is dead had stopped meanwhile is to be down now.
        quiesce_record.end(recovery)
        if (begun := under_way(next(quiesce_record.run_log(recovery).readable_back(), None))) is not None:
            _note(recovery, "ended", begun)
        committed = recovery.groups.committed(recovery.application_id, list(run.ends))
        after = {tp: known.offset for tp, known in committed.items() if known is not None}
        behind, unread = _unread(recovery, run.ends)
        return ScheduledRunReport(
            run_id=run.run_id,
            seconds=round((recovery.clock() - run.started_at) / 1000, 1),
            processed=processed(run.before, after),
            gone=run.gone,
            behind=behind,
            unread=unread,
            closed_cleanly=report.clean,
        )


def _refuse_if_over(recovery: RecoveryContext, run: ScheduledRun) -> None:
    last = next(quiesce_record.run_log(recovery).readable_back(), None)
    if not is_over(last, run):
        return
    later, alive = under_way(last), [one.name for one in not_gone(recovery)]
    if later is not None or alive:
        why = f"run {later.run_id} works with it" if later is not None else f"something else has started {', '.join(alive)}"
        raise Refused(
            f"run {run.run_id} of {recovery.application_id} is over, and {why}",
            next_step="nothing was stopped; whoever has started it stops it",
            instances=alive,
        )


def _unread(recovery: RecoveryContext, ends: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The lag of an application that is down, up to these ends of its inputs and to the ends of the topics that it writes for itself."""
    own = own_partitions(recovery)
    committed = recovery.groups.committed(recovery.application_id, [*ends, *own])
    own_ends = recovery.cluster.high_watermarks(own) if own else {}
    lag = RecordLag(recovery)
    behind, unread = lag.look(ends, committed, down=True), lag.look(own_ends, committed, down=True)
    return {tp: one.left for tp, one in behind.items()}, {tp: one.left for tp, one in unread.items()}
