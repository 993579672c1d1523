"""Appends later input again that a restore to a moment, in place, has set aside.

*plan* checks that no producer writes to these inputs, and shows how many records go to which partition. It changes nothing. After the approval
*append_records* writes the records unchanged and in the order they had in their partition. *finish* checks that all of them are there. A failed run
is continued by the next run. The application may run meanwhile: the appended records are new input for it and for every other reader.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.forms import savepoint_field
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.maintenance import FinishAppendOperator, LeaveAppendOperator, OpenAppendOperator, PlanAppendOperator
from streams_recovery.operators.spark import AppendRecordsOperator

PARAMS = {
    **form.of(
        savepoint_field(name="restore", title="Restore", help="The one that has set the input aside. latest: the last one that did.")
    ),
}


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_append_quarantine",
        scope,
        params=PARAMS,
        doc=__doc__,
        description="Append later input again that a restore in place has set aside",
    ) as dag:
        name = scope.application
        open_append = OpenAppendOperator(application_name=name).as_setup()
        (
            PlanAppendOperator(application_name=name, restore="{{ params.restore }}")
            >> ApprovePlanOperator(application_name=name, subject=f"Append later input of {name} again?")
            >> open_append
            >> AppendRecordsOperator(application_name=name)
            >> FinishAppendOperator(application_name=name)
            >> LeaveAppendOperator(application_name=name).as_teardown(setups=open_append)
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_append_quarantine", restorable())))
