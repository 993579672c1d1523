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
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.outputs import BeginOutputsOperator, ConcludeOutputsOperator
from streams_recovery.operators.spark import CompareOutputsOperator

PARAMS = form.of(*OutputsOptions.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_compare_outputs",
        scope,
        params=PARAMS,
        doc=__doc__,
        description="Compare outputs with those of a clone or of an interval",
    ) as dag:
        (
            BeginOutputsOperator(application_name=scope.application)
            >> CompareOutputsOperator(application_name=scope.application)
            >> ConcludeOutputsOperator(application_name=scope.application)
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_compare_outputs", restorable())))
