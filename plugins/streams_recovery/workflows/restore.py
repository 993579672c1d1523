"""Restores in place: each of these lists is one strategy, read from top to bottom.

The steps up to the opening change nothing; from PREPARE_TOPICS on the application stays down until its topics are verified and its offsets are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.operations import rescale, restore
from streams_recovery.operations.restore import LoadSummary, RecoveredSummary, RestoreTicket, SafetyBegun, SafetyPolicy, VerifySummary
from streams_recovery.operations.restore.strategies import (
    AsOfMoment,
    Failover,
    OfInterval,
    Rebuild,
    Rescale,
    RestoreStrategy,
    RestoreTopics,
    UpgradeInPlace,
)
from streams_recovery.workflows.step import LONG, JobStep, Step, When, Workflow


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


def _stopped_message(stopped: restore.StopSummary) -> str:
    return f"left on a person's word, not proven stopped: {'; '.join(stopped.unproven)}" if stopped.unproven else "application stopped"


PLAN: Final = Step(name="plan", call=restore.plan, result=RestorePlan)
OPEN_RESTORE: Final = Step(name="open_restore", call=restore.open_restore, result=RestoreTicket)
STOP_APPLICATION: Final = Step(
    name="stop_application",
    call=restore.stop,
    result=restore.StopSummary,
    needs=(OPEN_RESTORE,),
    done_in=Phase.STARTED,
    message=_stopped_message,
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
    call=restore.keep_state,
    result=restore.SafetySummary,
    needs=(OPEN_RESTORE, SAVE_STATE, COPY_STATE.file),
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
# A load that failed half way goes on behind its records, so another try costs the missing records only.
LOAD_RECORDS: Final = JobStep(
    name="load_records",
    job="restore",
    call=restore.plan_load,
    needs=(OPEN_RESTORE,),
    expected=restore.expected_load,
    retries=2,
    delay=timedelta(seconds=30),
    done_in=Phase.LOADED,
)
CHECK_LOAD: Final = Step(
    name="check_load",
    call=restore.check_load,
    result=LoadSummary,
    needs=(OPEN_RESTORE, LOAD_RECORDS.file),
    done_in=Phase.LOADED,
    message=_load_message,
)
_LOADED: Final = CHECK_LOAD.part(lambda load: load.result)
COMPARE_RECORDS: Final = JobStep(
    name="compare_records", job="verify", call=restore.plan_verify, needs=(OPEN_RESTORE, _LOADED), done_in=Phase.STARTED
)
VERIFY_CHANGELOGS: Final = Step(
    name="verify_changelogs",
    call=restore.check_verify,
    result=VerifySummary,
    needs=(OPEN_RESTORE, _LOADED, COMPARE_RECORDS.file),
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
ARRIVE: Final = Step(
    name="record_site",
    call=restore.arrive,
    result=restore.ArrivedSummary,
    needs=(OPEN_RESTORE,),
    message=lambda arrived: (
        f"moved from {arrived.before} to {arrived.site}" + (f"; fenced: {', '.join(arrived.fenced)}" if arrived.fenced else "")
    ),
)
DRAIN: Final = Step(
    name="drain",
    call=restore.drain,
    result=restore.EndsSummary,
    needs=(OPEN_RESTORE,),
    limit=LONG,
    message=lambda ended: f"stopped at the ends of {ended.partitions} partitions",
)
QUERIED: Final = AWAIT_RECOVERED.part(lambda recovered: recovered.query_checks)
FINISH: Final = Step(name="finish", call=restore.finish, result=restore.RestoreReport, needs=(OPEN_RESTORE, VERIFY_CHANGELOGS, QUERIED))
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

# Single topics come back beside a state that stays: nothing is stopped, saved, replaced or started.
PREPARE_SINGLE: Final = replace(PREPARE_TOPICS, call=restore.prepare_topics)
WIPE_NOTED: Final = Step(
    name="wipe_noted_offsets",
    call=restore.wipe_noted,
    result=restore.WipeSummary,
    needs=(OPEN_RESTORE,),
    message=lambda wiped: "local state wiped" if wiped.removed else None,
)
FINISH_SINGLE: Final = Step(
    name="finish", call=restore.finish_topics, result=restore.RestoreReport, needs=(OPEN_RESTORE, VERIFY_CHANGELOGS)
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
    name="check_deferred_input",
    call=restore.check_load_deferred,
    result=LoadSummary,
    needs=(OPEN_RESTORE, LOAD_DEFERRED.file),
    done_in=Phase.INPUT_COMPLETE,
)
_FED: Final = CHECK_DEFERRED.part(lambda load: load.result)
COMPARE_DEFERRED: Final = JobStep(
    name="compare_deferred_input",
    job="verify",
    call=restore.plan_verify_deferred,
    needs=(OPEN_RESTORE, _FED),
    done_in=Phase.INPUT_COMPLETE,
)
VERIFY_DEFERRED: Final = Step(
    name="verify_deferred_input",
    call=restore.check_verify_deferred,
    result=VerifySummary,
    needs=(OPEN_RESTORE, VERIFY_CHANGELOGS, _FED, COMPARE_DEFERRED.file),
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

# An upgrade in place: the state stays, and another version goes on with it.
CHECK_VERSION: Final = Step(
    name="check_version",
    call=restore.check_version,
    result=restore.VersionChecked,
    needs=(OPEN_RESTORE,),
    # Behind it the new version may have run: taken again, this would remove the state that it has made since.
    done_in=Phase.WIPED,
    message=lambda checked: f"the new version and savepoint {checked.savepoint_id}: {checked.verdict}",
)
WATCH_VERSION: Final = Step(
    name="watch_version",
    call=restore.watch,
    result=restore.Watched,
    needs=(OPEN_RESTORE,),
    limit=LONG,
    message=lambda watched: f"watched for {watched.seconds:.0f} s: {watched.behind} input records are left, {watched.most_behind} at most",
)
FINISH_UPGRADE: Final = Step(
    name="finish", call=restore.finish_upgrade, result=restore.RestoreReport, needs=(OPEN_RESTORE, WATCH_VERSION), retries=3
)
ABANDON_UPGRADE: Final = replace(ABANDON, call=restore.abandon_upgrade)

# Other numbers of partitions: what would be refused of the records is refused before the stop. Nothing of it is taken again once topics are replaced.
PROVE_PLACEMENT: Final = JobStep(
    name="prove_placement", job="rescale", call=rescale.plan_proof, needs=(OPEN_RESTORE,), done_in=Phase.DESTROYING
)
CHECK_PLACEMENT: Final = Step(
    name="check_placement",
    call=rescale.check_proof,
    result=rescale.PlacementProven,
    needs=(OPEN_RESTORE, PROVE_PLACEMENT.file),
    done_in=Phase.DESTROYING,
    message=lambda proven: f"{proven.records} records of {proven.topics} topics lie where their keys put them",
)
PLACE_RECORDS: Final = JobStep(
    name="place_records", job="rescale", call=rescale.plan_placing, needs=(OPEN_RESTORE,), done_in=Phase.DESTROYING
)
KEEP_PLACED: Final = Step(
    name="keep_placed",
    call=rescale.keep_placed,
    result=rescale.PlacedSummary,
    needs=(OPEN_RESTORE, PLACE_RECORDS.part(lambda placed: placed.plan), PLACE_RECORDS.file),
    done_in=Phase.DESTROYING,
    message=lambda placed: (
        f"savepoint {placed.savepoint_id}: {placed.records} records placed anew, {placed.keys} keys with the same newest values"
        if placed.topics
        else None
    ),
)

# Parts that all of them have. dags/ draw them by the functions of the same names in operators/restore.py.
REPLACE_STATE: Final = (
    STOP_APPLICATION,
    SAVE_STATE,
    COPY_STATE,
    KEEP_STATE,
    PREPARE_TOPICS,
    LOAD_RECORDS,
    CHECK_LOAD,
    COMPARE_RECORDS,
    VERIFY_CHANGELOGS,
)
START_AGAIN: Final = (RESET_CONSUMER_GROUP, WIPE_STATE, START_APPLICATION, AWAIT_RECOVERED)

FROM_SAVEPOINT: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(*REPLACE_STATE, *START_AGAIN, FINISH, ABANDON),
    result=FINISH,
)
FAILOVER: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(*REPLACE_STATE, *START_AGAIN, ARRIVE, FINISH, ABANDON),
    result=FINISH,
)
REBUILD: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(*REPLACE_STATE, VERIFY_CLEARED, *START_AGAIN, FINISH, ABANDON),
    result=FINISH,
)
AS_OF_MOMENT: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(*REPLACE_STATE, *START_AGAIN, DRAIN, FINISH, ABANDON),
    result=FINISH,
)

RESCALE: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(
        PROVE_PLACEMENT,
        CHECK_PLACEMENT,
        STOP_APPLICATION,
        SAVE_STATE,
        COPY_STATE,
        KEEP_STATE,
        PLACE_RECORDS,
        KEEP_PLACED,
        PREPARE_TOPICS,
        LOAD_RECORDS,
        CHECK_LOAD,
        COMPARE_RECORDS,
        VERIFY_CHANGELOGS,
        *START_AGAIN,
        FINISH,
        ABANDON,
    ),
    result=FINISH,
)

UPGRADE: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(
        STOP_APPLICATION,
        SAVE_STATE,
        COPY_STATE,
        KEEP_STATE,
        CHECK_VERSION,
        START_APPLICATION,
        AWAIT_RECOVERED,
        WATCH_VERSION,
        FINISH_UPGRADE,
        ABANDON_UPGRADE,
    ),
    result=FINISH_UPGRADE,
)

SINGLE_TOPICS: Final = Workflow(
    before=(PLAN,),
    opening=OPEN_RESTORE,
    steps=(
        PREPARE_SINGLE,
        LOAD_RECORDS,
        CHECK_LOAD,
        COMPARE_RECORDS,
        VERIFY_CHANGELOGS,
        RESET_CONSUMER_GROUP,
        WIPE_NOTED,
        FINISH_SINGLE,
        ABANDON,
    ),
    result=FINISH_SINGLE,
)

# Strategies that take other steps than a restore from a savepoint. An interval has more of them: ``workflows.sandbox.INTERVAL``.
OTHERS: Final[Mapping[type[RestoreStrategy], Workflow[restore.RestoreReport]]] = {
    Rebuild: REBUILD,
    AsOfMoment: AS_OF_MOMENT,
    OfInterval: AS_OF_MOMENT,
    RestoreTopics: SINGLE_TOPICS,
    Failover: FAILOVER,
    UpgradeInPlace: UPGRADE,
    Rescale: RESCALE,
}


def workflow_of(strategy: type[RestoreStrategy]) -> Workflow[restore.RestoreReport]:
    """The workflow of a restore by this strategy."""
    return OTHERS.get(strategy, FROM_SAVEPOINT)
