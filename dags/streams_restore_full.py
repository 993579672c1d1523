"""Brings an application back in place, with its state, from a savepoint.

*plan* shows everything that would be done and changes nothing. *approve* waits for a person; until then the application goes on as it was, and
a rejected run fails with nothing touched. *open_restore* takes the application's lock and plans again: another plan than the approved
one stops the run. Until *prepare_topics* a failure brings the application back as it was; after it, the application stays down until
its topics are verified and its offsets set, and *abandon* says what to do next.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG, Param

from streams_recovery.config.locating import load_applications
from streams_recovery.operators.base import result_of
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    AwaitRecoveredOperator,
    CheckLoadOperator,
    FinishRestoreOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareTopicsOperator,
    ResetConsumerGroupOperator,
    StartApplicationOperator,
    StopApplicationOperator,
    VerifyChangelogsOperator,
    WipeStateOperator,
)
from streams_recovery.operators.spark import CompareRecordsOperator, LoadRecordsOperator

JOB = timedelta(hours=12)
NAMES = sorted(load_applications())
PARAMS = {
    "application": Param(NAMES[0] if len(NAMES) == 1 else None, type="string", enum=NAMES, title="Application"),
    "savepoint": Param(
        "latest",
        type="string",
        pattern=r"^(latest|\d{8}T\d{6}Z-[0-9a-f]{10})$",
        title="Savepoint",
        description="latest: the newest exact one",
    ),
    "allow_ahead": Param(default=False, type="boolean", title="Allow a savepoint that may count some input twice"),
    "reason": Param("", type="string", maxLength=500, title="Reason", description="Kept with the evidence of the restore."),
}

with DAG(
    "streams_restore_full",
    schedule=None,
    max_active_runs=1,
    params=PARAMS,
    doc_md=__doc__,
    description="Restore an application in place, with its state",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    NAME = "{{ params.application }}"
    asked = {
        "application_name": NAME,
        "savepoint": "{{ params.savepoint }}",
        "allow_ahead": "{{ params.allow_ahead }}",
        "reason": "{{ params.reason }}",
    }
    TICKET = result_of("open_restore")
    shared = {"application_name": NAME, "ticket": TICKET}
    plan = PlanRestoreOperator(task_id="plan", **asked)
    approve = ApprovalOperator(
        task_id="approve",
        subject="Restore {{ params.application }} in place?",
        body="{{ ti.xcom_pull(task_ids='plan')['text'] }}",
        defaults="Reject",
        fail_on_reject=True,
        response_timeout=timedelta(hours=24),
        execution_timeout=None,
    )
    open_restore = OpenRestoreOperator(
        task_id="open_restore", approved_hash="{{ ti.xcom_pull(task_ids='plan')['hash'] }}", **asked
    ).as_setup()
    stop = StopApplicationOperator(task_id="stop_application", **shared)
    prepare = PrepareTopicsOperator(task_id="prepare_topics", **shared)
    load = LoadRecordsOperator(task_id="load_records", execution_timeout=JOB, application_name=NAME, ticket=TICKET)
    check = CheckLoadOperator(task_id="check_load", outcome=result_of("load_records"), **shared)
    compare = CompareRecordsOperator(task_id="compare_records", execution_timeout=JOB, application_name=NAME, ticket=TICKET)
    verify = VerifyChangelogsOperator(task_id="verify_changelogs", outcome=result_of("compare_records"), **shared)
    reset = ResetConsumerGroupOperator(task_id="reset_consumer_group", **shared)
    wipe = WipeStateOperator(task_id="wipe_state", **shared)
    start = StartApplicationOperator(task_id="start_application", **shared)
    recovered = AwaitRecoveredOperator(task_id="await_recovered", started=result_of("start_application"), **shared)
    finish = FinishRestoreOperator(task_id="finish", verified=result_of("verify_changelogs"), **shared)
    abandon = AbandonRestoreOperator(task_id="abandon", **shared).as_teardown(setups=open_restore)
    (
        plan
        >> approve
        >> open_restore
        >> stop
        >> prepare
        >> load
        >> check
        >> compare
        >> verify
        >> reset
        >> wipe
        >> start
        >> recovered
        >> finish
        >> abandon
    )
