"""Restores in place: each of these lists is one strategy, read from top to bottom.

The steps up to the opening change nothing; from PREPARE_TOPICS on the application stays down until its topics are verified and its offsets are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import LoadSummary, RecoveredSummary, RestoreTicket, SafetyBegun, SafetyPolicy, VerifySummary
from streams_recovery.operations.restore.strategies import AsOfMoment, OfInterval, Rebuild, RestoreStrategy
from streams_recovery.operations.savepoint import JobPlan
from streams_recovery.workflows.step import LONG, JobOutcome, JobStep, Step, When


def _left_by(outcome: JobOutcome | LoadSummary | None) -> ArtifactRef | None:
    return None if outcome is None else outcome.result


def _keep_state(recovery: RecoveryContext, ticket: RestoreTicket, begun: SafetyBegun, copied: JobOutcome | None) -> restore.SafetySummary:
    return restore.keep_state(recovery, ticket, begun, _left_by(copied))


def _check_load(recovery: RecoveryContext, ticket: RestoreTicket, loaded: JobOutcome) -> LoadSummary:
    return restore.check_load(recovery, ticket, loaded.result)


def _plan_verify(recovery: RecoveryContext, ticket: RestoreTicket, load: LoadSummary | None) -> JobPlan:
    return restore.plan_verify(recovery, ticket, _left_by(load))


def _check_verify(recovery: RecoveryContext, ticket: RestoreTicket, load: LoadSummary | None, compared: JobOutcome) -> VerifySummary:
    return restore.check_verify(recovery, ticket, _left_by(load), compared.result)


def _check_deferred(recovery: RecoveryContext, ticket: RestoreTicket, loaded: JobOutcome) -> LoadSummary:
    return restore.check_load_deferred(recovery, ticket, loaded.result)


def _plan_verify_deferred(recovery: RecoveryContext, ticket: RestoreTicket, load: LoadSummary) -> JobPlan:
    return restore.plan_verify_deferred(recovery, ticket, load.result)


def _check_verify_deferred(
    recovery: RecoveryContext, ticket: RestoreTicket, verified: VerifySummary | None, load: LoadSummary, compared: JobOutcome
) -> VerifySummary:
    before = restore.require_verified(recovery, ticket) if verified is None else verified
    return restore.check_verify_deferred(recovery, ticket, before, load.result, compared.result)


def _finish(
    recovery: RecoveryContext, ticket: RestoreTicket, verified: VerifySummary | None, recovered: RecoveredSummary | None
) -> restore.RestoreReport:
    queried = restore.queried_before(recovery, ticket) if recovered is None else recovered.query_checks
    return restore.finish(recovery, ticket, restore.require_verified(recovery, ticket) if verified is None else verified, queried)


def _load_message(load: LoadSummary) -> str | None:
    if not load.partitions:
        return None
    return f"{load.rows} records loaded" + (f", {load.present} of them were there and equal" if load.present else "")


def _verify_message(verified: VerifySummary) -> str | None:
    keys = f" and {verified.keys_compared} keys" if verified.keys_compared else ""
    return f"{verified.rows_compared} records{keys} compared, all equal" if verified.partitions else None


def _safety_message(saved: restore.SafetySummary) -> str:
    what = f"{saved.consistency}, {saved.records} records" if saved.savepoint_id else saved.none_because
    return f"safety savepoint {saved.savepoint_id or 'not taken'}: {what}"


PLAN: Final = Step(name="plan", call=restore.plan, result=RestorePlan)
OPEN_RESTORE: Final = Step(name="open_restore", call=restore.open_restore, result=RestoreTicket)
STOP_APPLICATION: Final = Step(
    name="stop_application",
    call=restore.stop,
    result=restore.StopSummary,
    needs=(OPEN_RESTORE,),
    done_in=Phase.STARTED,
    message=lambda _: "application stopped",
)
SAVE_STATE: Final = Step(name="save_state", call=restore.save_state, result=SafetyBegun, needs=(OPEN_RESTORE,), done_in=Phase.SAVED)
COPY_STATE: Final = JobStep(
    name="copy_state",
    job="backup",
    call=lambda _recovery, _ticket, begun: begun.job,
    needs=(OPEN_RESTORE, SAVE_STATE),
    done_in=Phase.SAVED,
    may_fail=lambda ticket: ticket.request.safeguards.safety is not SafetyPolicy.REQUIRED,
)
KEEP_STATE: Final = Step(
    name="keep_state",
    call=_keep_state,
    result=restore.SafetySummary,
    needs=(OPEN_RESTORE, SAVE_STATE, COPY_STATE),
    done_in=Phase.SAVED,
    message=_safety_message,
)
PREPARE_TOPICS: Final = Step(
    name="prepare_topics",
    call=restore.prepare,
    result=restore.PrepareSummary,
    needs=(OPEN_RESTORE,),
    done_in=Phase.CREATED,
    message=lambda prepared: f"{len(prepared.created)} topics created",
)
# A load that failed half way goes on behind what it wrote, so trying again costs what is missing and no more.
LOAD_RECORDS: Final = JobStep(
    name="load_records",
    job="restore",
    call=restore.plan_load,
    needs=(OPEN_RESTORE,),
    retries=2,
    delay=timedelta(seconds=30),
    done_in=Phase.LOADED,
)
CHECK_LOAD: Final = Step(
    name="check_load",
    call=_check_load,
    result=LoadSummary,
    needs=(OPEN_RESTORE, LOAD_RECORDS),
    done_in=Phase.LOADED,
    message=_load_message,
)
COMPARE_RECORDS: Final = JobStep(
    name="compare_records", job="verify", call=_plan_verify, needs=(OPEN_RESTORE, CHECK_LOAD), done_in=Phase.STARTED
)
VERIFY_CHANGELOGS: Final = Step(
    name="verify_changelogs",
    call=_check_verify,
    result=VerifySummary,
    needs=(OPEN_RESTORE, CHECK_LOAD, COMPARE_RECORDS),
    done_in=Phase.STARTED,
    message=_verify_message,
)
VERIFY_CLEARED: Final = Step(
    name="verify_cleared",
    call=restore.verify_cleared,
    result=restore.ClearedSummary,
    needs=(OPEN_RESTORE, VERIFY_CHANGELOGS),
    done_in=Phase.STARTED,
    message=lambda cleared: f"{len(cleared.gone)} internal topics are gone",
)
RESET_CONSUMER_GROUP: Final = Step(
    name="reset_consumer_group",
    call=restore.set_offsets,
    result=restore.OffsetsSummary,
    needs=(OPEN_RESTORE,),
    done_in=Phase.STARTED,
    message=lambda offsets: f"{offsets.partitions} offsets set, {offsets.with_metadata} with metadata",
)
WIPE_STATE: Final = Step(name="wipe_state", call=restore.wipe, result=restore.WipeSummary, needs=(OPEN_RESTORE,), done_in=Phase.STARTED)
START_APPLICATION: Final = Step(
    name="start_application",
    call=restore.start,
    result=restore.StartSummary,
    needs=(OPEN_RESTORE,),
    done_in=Phase.RECOVERED,
    message=lambda started: f"started {', '.join(started.instances)}",
)
AWAIT_RECOVERED: Final = Step(
    name="await_recovered",
    call=restore.await_recovered,
    result=RecoveredSummary,
    needs=(OPEN_RESTORE, START_APPLICATION),
    limit=LONG,
    done_in=Phase.RECOVERED,
    message=lambda recovered: f"recovered in {recovered.seconds} s",
)
DRAIN: Final = Step(
    name="drain",
    call=restore.drain,
    result=restore.EndsSummary,
    needs=(OPEN_RESTORE,),
    limit=LONG,
    message=lambda ended: f"stopped at the ends of {ended.partitions} partitions",
)
FINISH: Final = Step(name="finish", call=_finish, result=restore.RestoreReport, needs=(OPEN_RESTORE, VERIFY_CHANGELOGS, AWAIT_RECOVERED))
ABANDON: Final = Step(
    name="abandon",
    call=restore.abandon,
    result=restore.AbandonReport,
    needs=(OPEN_RESTORE,),
    when=When.FAILURE,
    retries=3,
    message=lambda left: f"stopped in phase {left.phase}: {left.next_step}",
    commands=lambda left: left.commands,
)

# An interval gets its own input only once what comes before it is processed.
DRAIN_BEFORE_INTERVAL: Final = Step(
    name="drain_before_interval",
    call=restore.drain_before_interval,
    result=restore.EndsSummary,
    needs=(OPEN_RESTORE,),
    limit=LONG,
    done_in=Phase.INPUT_COMPLETE,
    message=lambda ended: f"stopped behind what comes before the interval, in {ended.seconds} s",
)
LOAD_DEFERRED: Final = JobStep(
    name="load_deferred_input",
    job="restore",
    call=restore.plan_load_deferred,
    needs=(OPEN_RESTORE,),
    retries=2,
    delay=timedelta(seconds=30),
    done_in=Phase.INPUT_COMPLETE,
)
CHECK_DEFERRED: Final = Step(
    name="check_deferred_input", call=_check_deferred, result=LoadSummary, needs=(OPEN_RESTORE, LOAD_DEFERRED), done_in=Phase.INPUT_COMPLETE
)
COMPARE_DEFERRED: Final = JobStep(
    name="compare_deferred_input",
    job="verify",
    call=_plan_verify_deferred,
    needs=(OPEN_RESTORE, CHECK_DEFERRED),
    done_in=Phase.INPUT_COMPLETE,
)
VERIFY_DEFERRED: Final = Step(
    name="verify_deferred_input",
    call=_check_verify_deferred,
    result=VerifySummary,
    needs=(OPEN_RESTORE, VERIFY_CHANGELOGS, CHECK_DEFERRED, COMPARE_DEFERRED),
    done_in=Phase.INPUT_COMPLETE,
    message=_verify_message,
)
START_ON_INTERVAL: Final = Step(
    name="start_on_interval",
    call=restore.start_on_interval,
    result=restore.StartSummary,
    needs=(OPEN_RESTORE,),
    limit=LONG,
    message=lambda started: f"started again: {', '.join(started.instances)}",
)

FROM_SAVEPOINT: Final = (
    STOP_APPLICATION,
    SAVE_STATE,
    COPY_STATE,
    KEEP_STATE,
    PREPARE_TOPICS,
    LOAD_RECORDS,
    CHECK_LOAD,
    COMPARE_RECORDS,
    VERIFY_CHANGELOGS,
    RESET_CONSUMER_GROUP,
    WIPE_STATE,
    START_APPLICATION,
    AWAIT_RECOVERED,
    FINISH,
    ABANDON,
)
REBUILD: Final = (
    STOP_APPLICATION,
    SAVE_STATE,
    COPY_STATE,
    KEEP_STATE,
    PREPARE_TOPICS,
    LOAD_RECORDS,
    CHECK_LOAD,
    COMPARE_RECORDS,
    VERIFY_CHANGELOGS,
    VERIFY_CLEARED,
    RESET_CONSUMER_GROUP,
    WIPE_STATE,
    START_APPLICATION,
    AWAIT_RECOVERED,
    FINISH,
    ABANDON,
)
AS_OF_MOMENT: Final = (
    STOP_APPLICATION,
    SAVE_STATE,
    COPY_STATE,
    KEEP_STATE,
    PREPARE_TOPICS,
    LOAD_RECORDS,
    CHECK_LOAD,
    COMPARE_RECORDS,
    VERIFY_CHANGELOGS,
    RESET_CONSUMER_GROUP,
    WIPE_STATE,
    START_APPLICATION,
    AWAIT_RECOVERED,
    DRAIN,
    FINISH,
    ABANDON,
)


# Strategies that take other steps than a restore from a savepoint. An interval has more of them: ``workflows.sandbox.INTERVAL``.
OTHER_STEPS: Final[Mapping[type[RestoreStrategy], tuple[Step, ...]]] = {
    Rebuild: REBUILD,
    AsOfMoment: AS_OF_MOMENT,
    OfInterval: AS_OF_MOMENT,
}


def steps_of(strategy: type[RestoreStrategy]) -> tuple[Step, ...]:
    """The steps of a restore behind its opening."""
    return OTHER_STEPS.get(strategy, FROM_SAVEPOINT)
