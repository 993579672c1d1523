"""A restore from the command line, from its beginning or from where an earlier one broke off: the same steps as the DAG, in the same order."""

from __future__ import annotations

import time
from collections.abc import Callable

from streams_recovery.core.errors import Damaged, RecoveryError, TransientError
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_submit import JobName
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.sandbox import Removed
from streams_recovery.operations.savepoint import JobPlan

Say = Callable[[str], None]
Job = Callable[[JobName, JobPlan, restore.RestoreTicket], ArtifactRef | None]
Plan = Callable[[RecoveryContext, restore.RestoreTicket], JobPlan]
Check = Callable[[RecoveryContext, restore.RestoreTicket, ArtifactRef | None], restore.LoadSummary]

# A load that was interrupted goes on behind what it left, so trying again costs what is missing and no more.
LOAD_ATTEMPTS = 3
# Leaving a restore brings the application back, so one failure must not be the end of it.
LEAVE_ATTEMPTS = 3
_LEAVE_AGAIN_SECONDS = 5.0


def carry_out(
    recovery: RecoveryContext,
    ticket: restore.RestoreTicket,
    job: Job,
    say: Say,
    *,
    before_start: Callable[[], object] = lambda: None,
    at_ends: Callable[[], None] = lambda: None,
) -> restore.RestoreReport:
    """Every step that the restore's journal does not show as done, ``before_start`` right before the application is started, and ``at_ends`` right
    before the last one. On an error the restore is left in a state that can be resumed, or, while nothing was destroyed, as if it had not begun.
    """
    try:
        phase = restore.phase_of(recovery, ticket)
        if phase.rank < Phase.STARTED.rank:
            loaded = _until_loaded(recovery, ticket, phase, job, say)
            verified: restore.VerifySummary | None = _until_wiped(recovery, ticket, loaded, job, say)
        else:
            verified = restore.verified_before(recovery, ticket)
        before_start()
        if phase.rank < Phase.RECOVERED.rank:
            started = restore.start(recovery, ticket)
            say(f"started {', '.join(started.instances)}")
            recovered = restore.await_recovered(recovery, ticket, started)
            say(f"recovered in {recovered.seconds} s")
            asked = recovered.asked
        else:
            asked = restore.queried_before(recovery, ticket)
        planned = restore.stored_plan(recovery, ticket)
        if planned.held_back:
            verified = _feed(recovery, ticket, phase, verified, job, say)
        if planned.point is not None:
            ended = restore.drain(recovery, ticket)
            say(f"stopped at the ends of {ended.partitions} partitions")
        at_ends()
        return restore.finish(recovery, ticket, verified, asked)
    except BaseException:
        leave(lambda: abandoned(recovery, ticket), say)
        raise


def leave(abandon: Callable[[], str], say: Say, *, again_seconds: float = _LEAVE_AGAIN_SECONDS) -> None:
    """Leave what failed, by ``abandon``, and tell what that says. When it fails too it is tried again, and then told: the error that made all this
    necessary must not be hidden by it.
    """
    for attempt in range(1, LEAVE_ATTEMPTS + 1):
        try:
            say(abandon())
        except TransientError as error:
            say(f"leaving it failed, attempt {attempt} of {LEAVE_ATTEMPTS}: {error}")
            if attempt < LEAVE_ATTEMPTS:
                time.sleep(again_seconds)
        except RecoveryError as error:
            say(f"it could not be left: {error}")
            return
        else:
            return
    say("what could not be put back stays on record: the next savepoint of the application tries again")


def abandoned(recovery: RecoveryContext, ticket: restore.RestoreTicket) -> str:
    """Abandon a restore; what became of it."""
    left = restore.abandon(recovery, ticket)
    return f"stopped in phase {left.phase}: {left.next_step}"


def _until_loaded(recovery: RecoveryContext, ticket: restore.RestoreTicket, phase: Phase, job: Job, say: Say) -> ArtifactRef | None:
    """The load's result, None when there was none, or when it was loaded before: then nothing says so but the repository."""
    restore.stop(recovery, ticket)
    say("application stopped")
    if phase.rank < Phase.SAVED.rank:
        _save(recovery, ticket, job, say)
    if phase.rank < Phase.CREATED.rank:
        prepared = restore.prepare(recovery, ticket)
        say(f"{len(prepared.created)} topics created")
    if phase.rank < Phase.LOADED.rank:
        loaded = _loaded(recovery, ticket, job, say, plan=restore.plan_load, check=restore.check_load)
        if loaded.partitions:
            say(f"{loaded.rows} records loaded" + (f", {loaded.present} of them were there and equal" if loaded.present else ""))
        return loaded.result
    return None


def _save(recovery: RecoveryContext, ticket: restore.RestoreTicket, job: Job, say: Say) -> None:
    begun = restore.save_state(recovery, ticket)
    copied = None
    try:
        copied = job("backup", begun.job, ticket)
    except RecoveryError as error:
        if ticket.request.safety is restore.SafetyPolicy.REQUIRED:
            raise
        say(f"the safety savepoint could not be copied: {error}")
    saved = restore.keep_state(recovery, ticket, begun, copied)
    told = f"{saved.consistency}, {saved.records} records" if saved.savepoint_id else saved.none_because
    say(f"safety savepoint {saved.savepoint_id or 'not taken'}: {told}")


def _feed(
    recovery: RecoveryContext, ticket: restore.RestoreTicket, phase: Phase, verified: restore.VerifySummary | None, job: Job, say: Say
) -> restore.VerifySummary | None:
    if phase.rank < Phase.FED.rank:
        ended = restore.stop_before_interval(recovery, ticket)
        say(f"stopped behind what comes before the interval, in {ended.seconds} s")
        verified = _give(recovery, ticket, verified, job, say)
    started = restore.start_again(recovery, ticket)
    say(f"started again: {', '.join(started.instances)}")
    return verified


def _give(
    recovery: RecoveryContext, ticket: restore.RestoreTicket, before: restore.VerifySummary | None, job: Job, say: Say
) -> restore.VerifySummary:
    if before is None:
        raise Damaged(
            f"nothing says what the verification of restore {ticket.restore_id} found",
            next_step="stop the application, and process the interval again from its beginning",
        )
    fed = _loaded(recovery, ticket, job, say, plan=restore.plan_feed, check=restore.check_feed)
    compared = _compare(job, restore.plan_verify_feed(recovery, ticket, fed.result), ticket, say)
    verified = restore.check_verify_feed(recovery, ticket, before, fed.result, compared)
    say(f"{fed.partitions} partitions of inputs have all of their {fed.rows} records, compared and equal")
    return verified


def _loaded(
    recovery: RecoveryContext, ticket: restore.RestoreTicket, job: Job, say: Say, *, plan: Plan, check: Check
) -> restore.LoadSummary:
    attempt = 1
    while True:
        try:
            result = job("restore", plan(recovery, ticket), ticket)
        except TransientError as error:
            if attempt == LOAD_ATTEMPTS:
                raise
            say(f"load attempt {attempt} of {LOAD_ATTEMPTS}: {error.reason}")
            attempt += 1
        else:
            return check(recovery, ticket, result)


def _until_wiped(
    recovery: RecoveryContext, ticket: restore.RestoreTicket, loaded: ArtifactRef | None, job: Job, say: Say
) -> restore.VerifySummary:
    compared = _compare(job, restore.plan_verify(recovery, ticket, loaded), ticket, say)
    verified = restore.check_verify(recovery, ticket, loaded, compared)
    keys = f" and {verified.keys_compared} keys" if verified.keys_compared else ""
    if verified.partitions:
        say(f"{verified.rows_compared} records{keys} compared, all equal")
    if ticket.request.from_input:
        say(f"{len(restore.verify_cleared(recovery, ticket, verified).gone)} internal topics are gone")
    offsets = restore.set_offsets(recovery, ticket)
    say(f"{offsets.partitions} offsets set, {offsets.with_metadata} with metadata")
    restore.wipe(recovery, ticket)
    return verified


def _compare(job: Job, check: JobPlan, ticket: restore.RestoreTicket, say: Say) -> ArtifactRef | None:
    # What the load has read back is proof enough for the other partitions.
    if check.spec is None:
        return None
    say(f"{check.ranges} partitions are compared row by row")
    return job("verify", check, ticket)


def removed(
    remove: Callable[[RecoveryContext, restore.RestoreTicket], Removed], scratch: RecoveryContext, ticket: restore.RestoreTicket, say: Say
) -> tuple[str, ...]:
    """Take an application away that was there for a while; told, with what is left of it when that failed, but never in the way of what happened before."""
    try:
        gone = remove(scratch, ticket)
    except RecoveryError as error:
        say(f"{scratch.application_id} could not be removed: {error}")
        return (error.reason,)
    say(f"{len(gone.topics)} topics of {scratch.application_id} removed")
    return ()
