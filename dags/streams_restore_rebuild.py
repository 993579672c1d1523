"""Rebuilds the state of an application from its input, without the state of a savepoint.

It does what Kafka's application reset tool does, and the manual steps around it. The plan shows every topic and offset. After the approval and a
safety savepoint, the internal topics of this application are deleted, offsets are set as the param says, and the local state of every instance is
wiped. The application then processes its input from there. Lost inputs, globals and outputs are created from a savepoint first when `inputs_from`
names one. A failure before *prepare_topics* starts the application again as it was. After a later failure the application stays down until its
offsets are set.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import Rebuild
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    FinishRestoreOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    VerifyClearedOperator,
    replace_state,
    start_again,
)
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*Rebuild.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_restore_rebuild", scope, params=PARAMS, doc=__doc__, description="Rebuild the state of an application from its input"
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=Rebuild.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=Rebuild.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Rebuild the state of {name} from its input?"),
            open_restore,
            *replace_state(name),
            VerifyClearedOperator(application_name=name),
            *start_again(name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_restore_rebuild", restorable())))
