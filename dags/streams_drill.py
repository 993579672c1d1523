"""Tests a restore: the newest exact savepoint, in full, into an application of its own, which is removed afterwards. It is at the site that the application
belongs to, or that `drill.site` names. With `drill.partitions` it tries a rescale: *place_records* and *keep_placed* place the records anew, in the drill's own
part of the repository.

A drill needs no approval because it touches nothing of the real application. Its internal topics have another application id, and its outputs go to
topics of their own. A configuration that does not map every output is refused. Records and keys are compared with the savepoint. Then the application
is started and has to catch up with its inputs. *remove* deletes everything, whatever failed. *conclude* adds RPO and RTO to the history, and fails
the run unless everything succeeded. The command line lists the history.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule, chain

from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.sandbox import Drill
from streams_recovery.config.sandbox_application import drill_name
from streams_recovery.core.forms import SAVEPOINT
from streams_recovery.operations.restore.strategies import FromSavepoint, Rescale
from streams_recovery.operators import form
from streams_recovery.operators.dags import by_id, drawn, scheduled
from streams_recovery.operators.form import utc
from streams_recovery.operators.restore import (
    FinishRestoreOperator,
    KeepPlacedOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    PrepareTopicsOperator,
    StopApplicationOperator,
    load_and_verify,
    planned,
    safety_savepoint,
    start_again,
)
from streams_recovery.operators.sandbox import ClearDrillOperator, ConcludeDrillOperator, RemoveDrillOperator
from streams_recovery.operators.spark import PlaceRecordsOperator

PARAMS = form.of(SAVEPOINT)
DRILL_OF = {"offsets": "exact", "reason": "drill"}


def streams_drill(name: str, drill: Drill, config: ApplicationConfig) -> DAG:
    """The DAG of one application."""
    with scheduled(
        "streams_drill",
        name,
        config,
        doc=__doc__,
        schedule=utc(drill.schedule),
        params=PARAMS,
        description=f"Restores of {config.application.id} that are tried and removed",
    ) as dag:
        scratch = drill_name(name)
        # A savepoint that is published meanwhile must not change what was planned.
        pinned = {"savepoint": planned("savepoint")}
        kind, asked = FromSavepoint.KIND, DRILL_OF | {"source": name}
        if drill.partitions:
            kind, asked = Rescale.KIND, {"partitions": drill.numbers, "reason": "drill", "confirm": drill.application_id}
        open_restore = OpenRestoreOperator(application_name=scratch, strategy=kind, fixed=asked | pinned).as_setup()
        chain(
            ClearDrillOperator(application_name=scratch),
            PlanRestoreOperator(application_name=scratch, strategy=kind, fixed=asked),
            open_restore,
            StopApplicationOperator(application_name=scratch),
            safety_savepoint(scratch),
            PlaceRecordsOperator(application_name=scratch),
            KeepPlacedOperator(application_name=scratch),
            PrepareTopicsOperator(application_name=scratch),
            load_and_verify(scratch),
            *start_again(scratch),
            FinishRestoreOperator(application_name=scratch),
            RemoveDrillOperator(application_name=scratch).as_teardown(setups=open_restore),
            ConcludeDrillOperator(application_name=name, trigger_rule=TriggerRule.ALL_DONE),
        )
    return dag


globals().update(
    by_id(
        streams_drill(name, config.drill, config)
        for name, config in drawn("streams_drill").items()
        if config.drill is not None and config.drill.enabled
    )
)
