"""Restores into an application of their own, which is removed afterwards: drills, and intervals of the past that are processed again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from streams_recovery.operations import interval, sandbox
from streams_recovery.operations.interval import Claimed, Planned, PublishReport
from streams_recovery.workflows import restore
from streams_recovery.workflows.step import LONG, Step, When, Workflow

_AGAIN: Final[dict[str, Any]] = {"retries": 2}


def _removed_message(removed: sandbox.Removed) -> str:
    return f"{len(removed.topics)} topics removed"


def _published_message(report: PublishReport) -> str:
    return "; ".join(
        f"{one.output}: {one.results} results in {one.topic}, {one.written} written, {one.same} there already" for one in report.outputs
    )


CLEAR_DRILL: Final = Step(name="clear", call=sandbox.clear, result=sandbox.Removed)
REMOVE_DRILL: Final = Step(
    name="remove",
    call=sandbox.remove,
    result=sandbox.Removed,
    needs=(restore.OPEN_RESTORE,),
    when=When.ALWAYS,
    retries=3,
    message=_removed_message,
)
CONCLUDE_DRILL: Final = Step(name="conclude", call=sandbox.conclude, result=sandbox.DrillEntry, when=When.ALWAYS, **_AGAIN)
DRILL: Final = Workflow(
    before=(CLEAR_DRILL, restore.PLAN),
    opening=restore.OPEN_RESTORE,
    steps=(
        restore.STOP_APPLICATION,
        restore.SAVE_STATE,
        restore.COPY_STATE,
        restore.KEEP_STATE,
        restore.PLACE_RECORDS,
        restore.KEEP_PLACED,
        restore.PREPARE_TOPICS,
        restore.LOAD_RECORDS,
        restore.CHECK_LOAD,
        restore.COMPARE_RECORDS,
        restore.VERIFY_CHANGELOGS,
        *restore.START_AGAIN,
        restore.FINISH,
        REMOVE_DRILL,
    ),
    result=restore.FINISH,
    after=(CONCLUDE_DRILL,),
)

CLAIM: Final = Step(name="claim", call=interval.claim, result=Claimed, limit=None, **_AGAIN)
CLEAR_INTERVAL: Final = Step(name="clear", call=interval.clear, result=sandbox.Removed, **_AGAIN)
PLAN_INTERVAL: Final = Step(name="plan", call=interval.plan, result=Planned, **_AGAIN)
PUBLISH_RESULTS: Final = Step(
    name="publish_results",
    call=interval.publish_results,
    result=PublishReport,
    needs=(restore.OPEN_RESTORE, CLAIM.part(lambda claimed: claimed.request)),
    limit=LONG,
    message=_published_message,
    **_AGAIN,
)
FINISH_INTERVAL: Final = replace(restore.FINISH, needs=(restore.OPEN_RESTORE, restore.VERIFY_DEFERRED, restore.QUERIED))
REMOVE_INTERVAL: Final = Step(
    name="remove",
    call=interval.remove,
    result=sandbox.Removed,
    needs=(restore.OPEN_RESTORE, PUBLISH_RESULTS),
    when=When.ALWAYS,
    retries=3,
    message=_removed_message,
)
CONCLUDE_INTERVAL: Final = Step(name="conclude", call=interval.conclude, result=interval.ReprocessEntry, when=When.ALWAYS, **_AGAIN)
INTERVAL: Final = Workflow(
    before=(CLAIM, CLEAR_INTERVAL, PLAN_INTERVAL),
    opening=restore.OPEN_RESTORE,
    steps=(
        *restore.REPLACE_STATE,
        *restore.START_AGAIN,
        restore.DRAIN_BEFORE_INTERVAL,
        restore.LOAD_DEFERRED,
        restore.CHECK_DEFERRED,
        restore.COMPARE_DEFERRED,
        restore.VERIFY_DEFERRED,
        restore.START_ON_INTERVAL,
        restore.DRAIN,
        PUBLISH_RESULTS,
        FINISH_INTERVAL,
        REMOVE_INTERVAL,
    ),
    result=PUBLISH_RESULTS,
    after=(CONCLUDE_INTERVAL,),
)
