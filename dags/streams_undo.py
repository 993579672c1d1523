"""Undoes a restore: brings back the safety savepoint that the restore took.

The tasks are those of a restore, with the same approval. The present state is saved first, so an undo can be undone. A safety savepoint of damaged state
is restored only when that is allowed.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import Undo
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
    replace_state,
    start_again,
)
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*Undo.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    params = {**PARAMS, **scope.places}
    with requested("streams_undo", scope, params=params, doc=__doc__, description="Bring back what was there before a restore") as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=Undo.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=Undo.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Undo the restore of {name}?"),
            open_restore,
            *replace_state(name),
            *start_again(name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_undo", restorable())))
