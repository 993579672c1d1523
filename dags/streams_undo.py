"""Undoes a restore: brings back the safety savepoint that the restore took.

The tasks are those of a restore, with the same approval. The present state is saved first, so an undo can be undone. A safety savepoint of damaged state
is restored only when that is allowed.
"""

from __future__ import annotations

from airflow.sdk import DAG

from streams_recovery.config.directory import load_applications
from streams_recovery.operators import params
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.groups import load_and_verify, safety_savepoint
from streams_recovery.operators.outcome import outcome_callbacks
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    AwaitRecoveredOperator,
    FinishRestoreOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareTopicsOperator,
    ResetConsumerGroupOperator,
    StartApplicationOperator,
    StopApplicationOperator,
    WipeStateOperator,
)

PARAMS = {
    "application": params.application(sorted(load_applications())),
    "restore": params.savepoint(title="Restore to undo", description="latest: the last one that took a safety savepoint"),
    "delete": params.delete("Those that appeared after the restore"),
    "allow_ahead": params.allow_ahead("a safety savepoint"),
    "allow_damaged": params.allow_damaged("a safety savepoint that found parts of the application gone"),
    "compare_keys": params.compare_keys(),
    "confirm": params.confirm(),
    "reason": params.reason(),
}
UNDO = "undo"

with DAG(
    "streams_undo",
    schedule=None,
    max_active_runs=params.RUNS,
    params=PARAMS,
    doc_md=__doc__,
    description="Bring back what was there before a restore",
    tags=["streams-recovery", "restore"],
    **outcome_callbacks(),
):
    name = "{{ params.application }}"
    open_restore = OpenRestoreOperator(application_name=name, strategy=UNDO).as_setup()
    (
        PlanRestoreOperator(application_name=name, strategy=UNDO)
        >> ApprovePlanOperator(subject="Undo the restore of {{ params.application }}?")
        >> open_restore
        >> StopApplicationOperator(application_name=name)
        >> safety_savepoint(name)
        >> PrepareTopicsOperator(application_name=name)
        >> load_and_verify(name)
        >> ResetConsumerGroupOperator(application_name=name)
        >> WipeStateOperator(application_name=name)
        >> StartApplicationOperator(application_name=name)
        >> AwaitRecoveredOperator(application_name=name)
        >> FinishRestoreOperator(application_name=name)
        >> AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore)
    )
