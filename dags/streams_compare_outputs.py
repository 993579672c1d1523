"""Compares the real outputs of an application with those of its clone, or with the results of an interval that was processed again, key by key.

Choose the clone, or for an interval the application itself. *begin* finds the records that come from the same input. It waits until the applications have
processed the input that there is. *compare_outputs* is the Spark job: it reads both sides and compares each key. *conclude* keeps the report for the page
and logs it. It changes nothing of any application and takes no lock. Keys and values are logged and kept only with `access.show_values`.

The result of *conclude* has `outcome`: `equal`, `different`, `partly compared` or `nothing compared`. A run succeeds whatever the outcome.
See docs/compare-outputs.md.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.core.outputs.comparison import OutputsOptions
from streams_recovery.operators import form
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.outcome import outcome_callbacks
from streams_recovery.operators.outputs import BeginOutputsOperator, ConcludeOutputsOperator
from streams_recovery.operators.spark import CompareOutputsOperator

PARAMS = form.of(*OutputsOptions.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with DAG(
        f"streams_compare_outputs{scope.suffix}",
        schedule=None,
        max_active_runs=form.RUNS,
        params={**scope.chosen, **PARAMS},
        access_control=scope.access_control,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        description="Compare outputs with those of a clone or of an interval",
        tags=["streams-recovery", "look", *scope.tags],
        **outcome_callbacks(scope.known_name),
    ) as dag:
        (
            BeginOutputsOperator(application_name=scope.application)
            >> CompareOutputsOperator(application_name=scope.application)
            >> ConcludeOutputsOperator(application_name=scope.application)
        )
    return dag


for _scope in scopes(restorable()):
    globals()[f"streams_compare_outputs{_scope.suffix}"] = dag_of(_scope)
