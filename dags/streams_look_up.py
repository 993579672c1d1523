"""Looks up a key of a store, or the newest records of a topic, in a savepoint.

*look_up* reads the savepoint, logs what it has found, and stores it for the page. It changes nothing and takes no lock. Keys and values are logged and stored
only with `access.show_values`; without it only how many rows there are, and where. The key that is asked for is a param of the run: whoever may see the run
sees it.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.state.inspection import LookUpRequest
from streams_recovery.operators import form
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.outcome import outcome_callbacks
from streams_recovery.operators.state import LookUpOperator

PARAMS = form.of(*LookUpRequest.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with DAG(
        f"streams_look_up{scope.suffix}",
        schedule=None,
        max_active_runs=form.RUNS,
        params={**scope.chosen, **PARAMS},
        access_control=scope.access_control,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        description="Look up a key or the newest records in a savepoint",
        tags=["streams-recovery", "look", *scope.tags],
        **outcome_callbacks(scope.known_name),
    ) as dag:
        LookUpOperator(application_name=scope.application)
    return dag


for _scope in scopes(restorable()):
    globals()[f"streams_look_up{_scope.suffix}"] = dag_of(_scope)
