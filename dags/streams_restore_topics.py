"""Brings single inputs, outputs or globals back from a savepoint. The application's state stays as it is.

*plan* shows which records come back, where the application reads on, and which other groups read these topics. It changes nothing. Under their own names the
topics must be gone or empty, and the application stopped: this DAG neither stops nor starts it. Under another name one topic comes back as a copy, and the
application may run. After the approval *prepare_topics* creates the topics. Each record is proven equal to the savepoint's before *reset_consumer_group*
sets the application's offsets. A failed run is continued by `streams-recovery resume`; *abandon* shows the command.
"""

from __future__ import annotations

from airflow.sdk import DAG, chain

from streams_recovery.operations.restore.strategies import RestoreTopics
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    FinishSingleTopicsOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareSingleTopicsOperator,
    ResetConsumerGroupOperator,
    WipeNotedOffsetsOperator,
    load_and_verify,
)
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*RestoreTopics.FORM)


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_restore_topics", scope, params=PARAMS, doc=__doc__, description="Bring single topics back, beside a state that stays"
    ) as dag:
        name = scope.application
        open_restore = OpenRestoreOperator(application_name=name, strategy=RestoreTopics.KIND).as_setup()
        chain(
            PlanRestoreOperator(application_name=name, strategy=RestoreTopics.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Restore single topics of {name}?"),
            open_restore,
            PrepareSingleTopicsOperator(application_name=name),
            load_and_verify(name),
            ResetConsumerGroupOperator(application_name=name),
            WipeNotedOffsetsOperator(application_name=name),
            FinishSingleTopicsOperator(application_name=name),
            ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints),
            AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
        )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_restore_topics", restorable())))
