"""Puts input behind the inputs again that a restore to a moment, in place, has taken out of them.

*plan* shows how many records go where, after it has seen that nobody writes to these inputs; nothing is changed. After the approval *append_records* writes
them, as they were, in the order they had in their partition, and *finish* sees that all of them are there. An attempt that broke off is continued by another
run, which compares what it has left. The application may run meanwhile: to it, and to everybody else, this is new input.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from streams_recovery.config.directory import load_applications
from streams_recovery.core.ids import PATTERN
from streams_recovery.operators import restore_params as params
from streams_recovery.operators.append import FinishAppendOperator, LeaveAppendOperator, OpenAppendOperator, PlanAppendOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.restore_chain import JOB, approval
from streams_recovery.operators.spark import AppendRecordsOperator

PARAMS = {
    "application": params.application(sorted(load_applications())),
    "restore": Param(
        "latest",
        type="string",
        pattern=f"^(latest|{PATTERN})$",
        title="Restore",
        description="The one that has set the input aside. latest: the last one that did.",
    ),
}

with DAG(
    "streams_append_quarantine",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Append later input again that a restore in place has set aside",
    tags=["streams-recovery", "restore"],
    default_args={"retries": 0, "execution_timeout": timedelta(minutes=30)},
):
    name = {"application_name": "{{ params.application }}"}
    plan = PlanAppendOperator(task_id="plan", restore="{{ params.restore }}", **name)
    approve = approval("Append later input of {{ params.application }} again?")
    # The restore that was shown, should another one have set something aside since.
    open_append = OpenAppendOperator(
        task_id="open_append",
        restore="{{ ti.xcom_pull(task_ids='plan')['restore'] }}",
        approved_hash="{{ ti.xcom_pull(task_ids='plan')['hash'] }}",
        **name,
    )
    ticket = result_of("open_append")
    append = AppendRecordsOperator(task_id="append_records", ticket=ticket, execution_timeout=JOB, **name)
    finish = FinishAppendOperator(task_id="finish", ticket=ticket, outcome=result_of("append_records"), **name)
    open_append.as_setup()
    leave = LeaveAppendOperator(task_id="leave", ticket=ticket, **name).as_teardown(setups=open_append)
    plan >> approve >> open_append >> append >> finish >> leave
