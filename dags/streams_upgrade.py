"""Replaces the version of an application under its own id, watches the new one, and takes it back when it fails.

*plan* compares the new version with the newest savepoint, stops the run where state would be lost, and changes nothing. *approve* waits for a person. The old
version is stopped, and a savepoint of what it leaves is taken: the way back. *check_version* compares the new version with that savepoint once more.
*start_application* runs the program that deploys the new version, and starts it. *watch_version* watches it.

Where the deployment fails, *abandon* deploys the old version again and starts it: nothing has touched its state. Where the new version fails later, the tasks
in *roll_back* deploy the old version and restore the savepoint, as the approved plan says, and the run fails. See docs/strategies/upgrade.md.
"""

from __future__ import annotations

from airflow.sdk import DAG, TaskGroup, chain

from streams_recovery.operations.restore import LOCK_WAIT_SECONDS
from streams_recovery.operations.restore.strategies import Undo, UpgradeInPlace
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    AbandonUpgradeOperator,
    AwaitRecoveredOperator,
    CheckVersionOperator,
    FinishRestoreOperator,
    FinishUpgradeOperator,
    OpenRestoreOperator,
    PlanRestoreOperator,
    StartApplicationOperator,
    StopApplicationOperator,
    WatchVersionOperator,
    WhetherToRollBackOperator,
    replace_state,
    safety_savepoint,
    start_again,
)
from streams_recovery.operators.state import ReportRestoreOperator

PARAMS = form.of(*UpgradeInPlace.FORM)


def way_back(what: str) -> str:
    """Template of one fact of what is taken back."""
    return f"{{{{ ti.xcom_pull(task_ids='whether_to_roll_back')['{what}'] }}}}"


def dag_of(scope: Scope) -> DAG:
    """The DAG of all applications, or of one that has DAGs of its own."""
    with requested(
        "streams_upgrade",
        scope,
        params=PARAMS,
        doc=__doc__,
        description="Deploy a new version on the state that is there, watch it, and take it back when it fails",
    ) as dag:
        name = scope.application
        open_upgrade = OpenRestoreOperator(application_name=name, strategy=UpgradeInPlace.KIND).as_setup()
        finish = FinishUpgradeOperator(application_name=name)
        whether = WhetherToRollBackOperator(application_name=name)
        chain(
            PlanRestoreOperator(application_name=name, strategy=UpgradeInPlace.KIND),
            ApprovePlanOperator(application_name=name, subject=f"Upgrade {name} in place?"),
            open_upgrade,
            StopApplicationOperator(application_name=name),
            safety_savepoint(name),
            CheckVersionOperator(application_name=name),
            StartApplicationOperator(application_name=name),
            AwaitRecoveredOperator(application_name=name),
            WatchVersionOperator(application_name=name),
            finish,
            AbandonUpgradeOperator(application_name=name).as_teardown(setups=open_upgrade),
            whether,
        )
        # Beside the way back: without a result of *finish* it fails, and the run with it, however well that went.
        finish >> ReportRestoreOperator(summary=result_of("finish"), about=name, known=scope.known, inlets=scope.savepoints)

        with TaskGroup("roll_back"):
            # Approved with the plan of the upgrade, which says what it does.
            fixed = {"restore": way_back("restore_id"), "reason": way_back("reason"), "confirm": way_back("application_id")}
            open_back = OpenRestoreOperator(application_name=name, strategy=Undo.KIND, fixed=fixed, patience=LOCK_WAIT_SECONDS).as_setup()
            chain(
                whether,
                PlanRestoreOperator(application_name=name, strategy=Undo.KIND, fixed=fixed),
                open_back,
                *replace_state(name, grouped=False),
                *start_again(name),
                FinishRestoreOperator(application_name=name),
                AbandonRestoreOperator(application_name=name).as_teardown(setups=open_back),
            )
    return dag


globals().update(by_id(dag_of(scope) for scope in scopes("streams_upgrade", restorable())))
