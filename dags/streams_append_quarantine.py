"""Appends later input again that a restore to a moment, in place, has set aside.

*plan* checks that no producer writes to these inputs, and shows how many records go to which partition. It changes nothing. After the approval
*append_records* writes the records unchanged and in the order they had in their partition. *finish* checks that all of them are there. A failed run
is continued by the next run. The application may run meanwhile: the appended records are new input for it and for every other reader.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.config.directory import load_applications
from streams_recovery.operators import params
from streams_recovery.operators.append import FinishAppendOperator, LeaveAppendOperator, OpenAppendOperator, PlanAppendOperator
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.outcome import outcome_callbacks
from streams_recovery.operators.spark import AppendRecordsOperator

PARAMS = {
    "application": params.application(sorted(load_applications())),
    "restore": params.savepoint(title="Restore", description="The one that has set the input aside. latest: the last one that did."),
}

with DAG(
    "streams_append_quarantine",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Append later input again that a restore in place has set aside",
    tags=["streams-recovery", "restore"],
    **outcome_callbacks(),
):
    name = "{{ params.application }}"
    open_append = OpenAppendOperator(application_name=name).as_setup()
    (
        PlanAppendOperator(application_name=name, restore="{{ params.restore }}")
        >> ApprovePlanOperator(subject="Append later input of {{ params.application }} again?")
        >> open_append
        >> AppendRecordsOperator(application_name=name)
        >> FinishAppendOperator(application_name=name)
        >> LeaveAppendOperator(application_name=name).as_teardown(setups=open_append)
    )
