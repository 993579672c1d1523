"""The tasks that every restore in place consists of, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator

from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    AwaitRecoveredOperator,
    CheckFeedOperator,
    CheckLoadOperator,
    FinishRestoreOperator,
    KeepStateOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareTopicsOperator,
    ResetConsumerGroupOperator,
    SaveStateOperator,
    StartAgainOperator,
    StartApplicationOperator,
    StopApplicationOperator,
    StopAtEndsOperator,
    StopBeforeIntervalOperator,
    VerifyChangelogsOperator,
    VerifyClearedOperator,
    VerifyFeedOperator,
    WipeStateOperator,
)
from streams_recovery.operators.spark import (
    CompareFeedOperator,
    CompareRecordsOperator,
    CopyStateOperator,
    FeedRecordsOperator,
    LoadRecordsOperator,
)

JOB = timedelta(hours=12)
# Of a job that loads: a retry goes on behind what was loaded.
AGAIN: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
# Of what brings an application back.
LEAVE: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(seconds=15)}


def restore_chain(
    application_name: str, request: Mapping[str, str], *, subject: str, from_input: bool = False, stops: bool = False
) -> None:
    """Lay the tasks of a restore into the DAG that is being defined. ``request`` has a template for every field of ``RestoreRequest``;
    ``subject`` is the question on the approval page. With ``from_input`` no state is loaded, and the proof that all internal topics are gone follows what
    is loaded of the input. One that ``stops`` leaves the application down at the ends of its input.

    The approval comes before the lock and the stop, so that a waiting run holds nothing. *abandon* is the teardown: it brings the application
    back as long as nothing was destroyed, and says what to do when something was.
    """
    ticket = result_of("open_restore")
    shared = {"application_name": application_name, "ticket": ticket}
    plan = PlanRestoreOperator(task_id="plan", application_name=application_name, asked=request)
    approve = approval(subject)
    approved_hash = "{{ ti.xcom_pull(task_ids='plan')['hash'] }}"
    open_restore = OpenRestoreOperator(
        task_id="open_restore", application_name=application_name, asked=request, approved_hash=approved_hash
    )
    open_restore.as_setup()
    abandon = AbandonRestoreOperator(task_id="abandon", **LEAVE, **shared).as_teardown(setups=open_restore)
    before = plan >> approve >> open_restore
    for step in (*restore_steps(application_name, ticket, from_input=from_input, stops=stops), abandon):
        before = before >> step


def approval(subject: str, *, group: str = "") -> ApprovePlanOperator:
    """The task that waits for a person who has read what *plan* of the same ``group`` says."""
    return ApprovePlanOperator(task_id="approve", subject=subject, body=f"{{{{ ti.xcom_pull(task_ids='{group}plan')['text'] }}}}")


def restore_steps(
    application_name: str,
    ticket: str,
    *,
    from_input: bool = False,
    stops: bool = False,
    feeds: bool = False,
    group: str = "",
    before_start: Sequence[BaseOperator] = (),
) -> list[BaseOperator]:
    """The tasks of a restore that is open, in their order, from the stop to the evidence. ``ticket`` is the template of what *open_restore* returned;
    ``group`` is that of the tasks, with a dot behind it. ``before_start`` come right before the start. One that ``feeds`` stops the application behind
    what comes before an interval, gives it the interval, and starts it again.
    """
    shared = {"application_name": application_name, "ticket": ticket}
    begun, started = result_of(f"{group}save_state"), result_of(f"{group}start_application")
    verified = result_of(f"{group}{'verify_feed' if feeds else 'verify_changelogs'}")
    return [
        StopApplicationOperator(task_id="stop_application", **shared),
        SaveStateOperator(task_id="save_state", **shared),
        CopyStateOperator(task_id="copy_state", begun=begun, execution_timeout=JOB, **shared),
        KeepStateOperator(task_id="keep_state", begun=begun, copied=result_of(f"{group}copy_state"), **shared),
        PrepareTopicsOperator(task_id="prepare_topics", **shared),
        *_loading(shared, group),
        *([VerifyClearedOperator(task_id="verify_cleared", verified=verified, **shared)] if from_input else []),
        ResetConsumerGroupOperator(task_id="reset_consumer_group", **shared),
        WipeStateOperator(task_id="wipe_state", **shared),
        *before_start,
        StartApplicationOperator(task_id="start_application", **shared),
        AwaitRecoveredOperator(task_id="await_recovered", started=started, execution_timeout=JOB, **shared),
        *(_feeding(shared, group) if feeds else []),
        *([StopAtEndsOperator(task_id="stop_at_ends", execution_timeout=JOB, **shared)] if stops else []),
        FinishRestoreOperator(task_id="finish", recovered=result_of(f"{group}await_recovered"), verified=verified, **shared),
    ]


def _loading(shared: Mapping[str, str], group: str) -> list[BaseOperator]:
    loaded = result_of(f"{group}check_load")
    return [
        LoadRecordsOperator(task_id="load_records", execution_timeout=JOB, **AGAIN, **shared),
        CheckLoadOperator(task_id="check_load", outcome=result_of(f"{group}load_records"), **shared),
        CompareRecordsOperator(task_id="compare_records", loaded=loaded, execution_timeout=JOB, **shared),
        VerifyChangelogsOperator(task_id="verify_changelogs", loaded=loaded, outcome=result_of(f"{group}compare_records"), **shared),
    ]


def _feeding(shared: Mapping[str, str], group: str) -> list[BaseOperator]:
    fed, verified = result_of(f"{group}check_feed"), result_of(f"{group}verify_changelogs")
    return [
        StopBeforeIntervalOperator(task_id="stop_before_interval", execution_timeout=JOB, **shared),
        FeedRecordsOperator(task_id="feed_records", execution_timeout=JOB, **AGAIN, **shared),
        CheckFeedOperator(task_id="check_feed", outcome=result_of(f"{group}feed_records"), **shared),
        CompareFeedOperator(task_id="compare_feed", loaded=fed, execution_timeout=JOB, **shared),
        VerifyFeedOperator(task_id="verify_feed", verified=verified, loaded=fed, outcome=result_of(f"{group}compare_feed"), **shared),
        StartAgainOperator(task_id="start_again", execution_timeout=JOB, **shared),
    ]
