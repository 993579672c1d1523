"""Restores a second application to a moment T of the first one: the state of a savepoint before T, and the archived input up to T.

*plan* chooses the newest exact savepoint that had read nothing later than T, cuts the archived inputs at T, and shows both. It changes nothing. After
the approval the tasks are those of a restore: internal topics come from the savepoint, copies of the inputs from the archive. Both are verified, and
offsets are set. The application then processes its copies to their ends, and *drain* stops it there. docs/strategies/pitr.md explains how exactly its
state is that of T. The first application is not touched and may run.

With `in_place` the application itself goes back, and input later than T is set aside. All producers must be stopped; the plan checks that as far as
possible. Every other reader must be named and stopped. `streams_append_quarantine` appends the input again.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import AsOfMoment
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    DrainOperator,
    FinishRestoreOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    replace_state,
    start_again,
)
from streams_recovery.operators.state import ReportRestoreOperator

SOURCE = (
    "Source application",
    "The application whose past it is. The one that is restored reads copies of its inputs and has outputs of its own (restore.topic_map). Empty: the same.",
)
PARAMS = form.of(*AsOfMoment.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_restore_pitr",
        scope,
        params={**scope.source(*SOURCE), **PARAMS, **scope.places},
        doc=__doc__,
        description="Bring an application to a moment in the past",
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=AsOfMoment.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=AsOfMoment.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Bring {name} to the moment shown?"),
            open_restore,
            *replace_state(name),
            *start_again(name),
            DrainOperator(application_name=name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_restore_pitr", restorable())))
