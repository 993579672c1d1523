"""Gives topics of an application other numbers of partitions, and takes all state and all unread input along. Growing and shrinking.

*plan* shows every topic with its old and its new number. *prove_placement* and *check_placement* prove, on a savepoint that is there, that every record lies
where its key puts it: what would be refused is refused before anything is stopped. *save_state* to *keep_state* take an exact savepoint of the stopped
application. *place_records* and *keep_placed* make another savepoint of it, of the same moment and with the new numbers. That one is restored as any other. The
safety savepoint is the way back: `streams_undo`.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import Rescale
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    CheckPlacementOperator,
    FinishRestoreOperator,
    KeepPlacedOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareTopicsOperator,
    StopApplicationOperator,
    load_and_verify,
    safety_savepoint,
    start_again,
)
from streams_recovery.operators.spark import PlaceRecordsOperator, ProvePlacementOperator
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*Rescale.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_restore_rescale", scope, params=PARAMS, doc=__doc__, description="Give topics other numbers of partitions, with all state"
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=Rescale.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=Rescale.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Rescale {name}?"),
            open_restore,
            ProvePlacementOperator(application_name=name),
            CheckPlacementOperator(application_name=name),
            StopApplicationOperator(application_name=name),
            safety_savepoint(name),
            PlaceRecordsOperator(application_name=name),
            KeepPlacedOperator(application_name=name),
            PrepareTopicsOperator(application_name=name),
            load_and_verify(name),
            *start_again(name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_restore_rescale", restorable())))
