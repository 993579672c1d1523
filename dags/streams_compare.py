"""Compares the stores of a savepoint with those of another one, or of the running application, key by key.

*compare* reads both sides, logs what it has found, and stores it for the page. It changes nothing of the application and takes no lock. Keys and values are
logged and stored only with `access.show_values`; without it only numbers are.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.state.inspection import CompareRequest
from streams_recovery.operators import form
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.state import CompareSavepointsOperator

PARAMS = form.of(*CompareRequest.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested("streams_compare", scope, params=PARAMS, doc=__doc__, description="Compare the stores of two savepoints") as dag:
        CompareSavepointsOperator(application_name=scope.application)
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_compare", restorable())))
