"""Moves an application to another site, with the state of a savepoint: the way out when its cluster is lost, and the way home.

*plan* looks at both sites, says what the other one lacks, and changes nothing. *approve* waits for a person. *open_restore* takes the application's lock and
makes the plan again: if it differs from the approved one, the run stops. *stop_application* stops the application at the site that it leaves and proves it;
where that site cannot be reached, a person has to type its name, and what is left there is stopped as soon as it answers again. From *prepare_topics* on
the application belongs to the new site, and is not started anywhere else. A failure before that starts it again where it was. *record_site* writes down
that it has arrived. A failed run is continued by `streams-recovery resume`; *abandon* shows the command.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import Failover
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
    RecordSiteOperator,
    replace_state,
    start_again,
)
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*Failover.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_failover", scope, params=PARAMS, doc=__doc__, description="Move an application to another site, with its state"
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=Failover.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=Failover.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Move {name} to another site?"),
            open_restore,
            *replace_state(name),
            *start_again(name),
            RecordSiteOperator(application_name=name),
            FinishRestoreOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_failover", restorable())))
