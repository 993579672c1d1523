"""Looks up a key of a store, or the newest records of a topic, in a savepoint.

*look_up* reads the savepoint, logs what it has found, and stores it for the page. It changes nothing and takes no lock. Keys and values are logged and stored
only with `access.show_values`; without it only how many rows there are, and where. The key that is asked for is a param of the run: whoever may see the run
sees it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.state.inspection import LookUpRequest
from streams_recovery.operators import form
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.state import LookUpOperator

PARAMS = form.of(*LookUpRequest.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_look_up",
        scope,
        params=PARAMS,
        doc=__doc__,
        description="Look up a key or the newest records in a savepoint",
    ) as dag:
        LookUpOperator(application_name=scope.application)
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_look_up", restorable())))
