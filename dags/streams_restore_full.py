"""Restores an application in place, with its state, from a savepoint.

*plan* shows everything that would be done and changes nothing. *approve* waits for a person. Until then the application keeps running, and
a rejected run changes nothing. *open_restore* takes the application's lock and makes the plan again: if it differs from the approved one, the run stops.
*save_state* to *keep_state* take a safety savepoint of the present state. `streams_undo` can bring that back. A failure before
*prepare_topics* starts the application again as it was. After a later failure the application stays down until its topics are verified and its
offsets are set. *abandon* then says what to do next.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import FromSavepoint
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

SOURCE = (
    "Savepoint of another application",
    "Begins a clone: its outputs must be mapped to names of their own. Empty: the application's own savepoint.",
)
PARAMS = form.of(*FromSavepoint.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_restore_full",
        scope,
        params={**scope.source(*SOURCE), **PARAMS, **scope.places},
        doc=__doc__,
        description="Restore an application in place, with its state",
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name).as_setup()
        chain(
            PlanRestoreOperator(application_name=name),
            ApprovePlanOperator(application_name=name, subject=f"Restore {name} in place?"),
            open_restore,
            *replace_state(name),
            *start_again(name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_restore_full", restorable())))
