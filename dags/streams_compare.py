"""Compares the stores of a savepoint with those of another one, or of the running application, key by key.

*compare* reads both sides, logs what it has found, and stores it for the page. It changes nothing of the application and takes no lock. Keys and values are
logged and stored only with `access.show_values`; without it only numbers are.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.state.inspection import CompareRequest
from streams_recovery.operators import form
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.outcome import outcome_callbacks
from streams_recovery.operators.state import CompareSavepointsOperator

PARAMS = form.of(*CompareRequest.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with DAG(
        f"streams_compare{scope.suffix}",
        schedule=None,
        max_active_runs=form.RUNS,
        params={**scope.chosen, **PARAMS},
        access_control=scope.access_control,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        description="Compare the stores of two savepoints",
        tags=["streams-recovery", "look", *scope.tags],
        **outcome_callbacks(scope.known_name),
    ) as dag:
        CompareSavepointsOperator(application_name=scope.application)
    return dag


for _scope in scopes(restorable()):
    globals()[f"streams_compare{_scope.suffix}"] = dag_of(_scope)
