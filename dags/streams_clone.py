"""Runs a clone of an application, cuts over to it, and rolls back.

The clone is another configured application with a `clone` section. `step` chooses:

* **clone**: the clone gets the state and the offsets of an exact savepoint and starts with outputs of its own. The old application keeps running.
* **cut_over**: the clone is stopped once it has caught up. The old application is stopped once it has processed at least as much. Then the clone
  starts with the real outputs. Some input records may get their output twice. The plan and the result count them. No output is lost.
* **roll_back**: the clone is stopped, and the old application is started where it stopped. Nothing of either was deleted. This also works after a
  failed step.
* **offline_upgrade**: the old application is stopped for an exact savepoint. The clone starts from it with the real outputs. No output is written
  twice.

Each step shows its plan first and waits for approval. See docs/strategies/clone.md.
"""

from __future__ import annotations

from dataclasses import replace

from airflow.sdk import DAG, TaskGroup, chain

from streams_recovery.core.forms import CONFIRM, savepoint_field
from streams_recovery.core.restore.request import COMPARE_KEYS, REASON, REPLACE, SAFETY, delete_field
from streams_recovery.core.rollout.cutover import RESTORE_FIRST, STEP
from streams_recovery.operators import form
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.base import result_of
from streams_recovery.operators.clone import (
    AbandonCutoverOperator,
    AwaitLiveOperator,
    BringBackOperator,
    ChooseStepOperator,
    FinishCutoverOperator,
    MakeLiveOperator,
    OpenCloneOperator,
    OpenCutoverOperator,
    OpenUpgradeOperator,
    PlanCloneOperator,
    PlanCutoverOperator,
    PlanUpgradeOperator,
    RetireOperator,
    StartLiveOperator,
    StopForCutoverOperator,
    TransferOutputsOperator,
)
from streams_recovery.operators.dags import by_id, requested
from streams_recovery.operators.form import Scope, restorable, scopes
from streams_recovery.operators.restore import (
    AbandonRestoreOperator,
    AwaitRecoveredOperator,
    FinishRestoreOperator,
    ResetConsumerGroupOperator,
    StartApplicationOperator,
    WipeStateOperator,
    replace_state,
    start_again,
)
from streams_recovery.operators.savepoint import (
    BeginSavepointOperator,
    CaptureCutOperator,
    FinishSavepointOperator,
    PublishSavepointOperator,
)
from streams_recovery.operators.spark import CopyRecordsOperator
from streams_recovery.operators.state import ReportSavepointOperator

PARAMS = form.of(
    STEP,
    savepoint_field(
        title="Savepoint of the old application", help="For clone. latest: the newest exact one. offline_upgrade takes its own."
    ),
    replace(
        REPLACE,
        title="Replace the clone's state",
        help="For clone and offline_upgrade, when the clone has been there before. It is saved first. Needs the confirmation below.",
    ),
    delete_field("Only with replace: those of the clone that the savepoint does not know or of which only the names say whose they are"),
    SAFETY,
    RESTORE_FIRST,
    COMPARE_KEYS,
    replace(CONFIRM, help="With replace: type the clone's application id."),
    REASON,
)
FIRST = {"clone": "clone.plan", "cut_over": "cut_over.plan", "roll_back": "cut_over.plan", "offline_upgrade": "retire.plan"}
CLONE = {"offsets": "exact"}


def dag_of(scope: Scope) -> DAG:
    """The DAG of all clones, or of one that has DAGs of its own."""
    with requested(
        "streams_clone",
        scope,
        params=PARAMS,
        doc=__doc__,
        description="Run a new version beside the old one, cut over to it, roll back",
    ) as dag:
        name, old = scope.application, "{{ ti.xcom_pull(task_ids='retire.plan')['old'] }}"
        choose = ChooseStepOperator(task_id="choose", step="{{ params.step }}", first_tasks=FIRST)

        with TaskGroup("clone"):
            # The old application's next savepoint must not change what was planned and is being read.
            planned_one = CLONE | {"savepoint": "{{ ti.xcom_pull(task_ids='clone.plan')['savepoint'] }}"}
            open_restore = OpenCloneOperator(application_name=name, fixed=planned_one).as_setup()
            chain(
                choose,
                PlanCloneOperator(application_name=name, fixed=CLONE),
                ApprovePlanOperator(application_name=name, subject=f"Clone into {name}?"),
                open_restore,
                *replace_state(name, grouped=False),
                *start_again(name),
                FinishRestoreOperator(application_name=name),
                AbandonRestoreOperator(application_name=name).as_teardown(setups=open_restore),
            )

        with TaskGroup("cut_over"):
            open_cutover = OpenCutoverOperator(application_name=name).as_setup()
            (
                choose
                >> PlanCutoverOperator(application_name=name)
                >> ApprovePlanOperator(application_name=name, subject=f"{{{{ params.step }}}} of {name}?")
                >> open_cutover
                >> StopForCutoverOperator(application_name=name)
                >> TransferOutputsOperator(application_name=name)
                >> StartLiveOperator(application_name=name)
                >> AwaitLiveOperator(application_name=name)
                >> FinishCutoverOperator(application_name=name)
                >> AbandonCutoverOperator(application_name=name).as_teardown(setups=open_cutover)
            )

        with TaskGroup("retire"):
            begin = BeginSavepointOperator(
                application_name=old, approval_of=name, reason="{{ params.reason or '' }}", mode="stop"
            ).as_setup()
            publish = PublishSavepointOperator(application_name=old)
            finish_savepoint = FinishSavepointOperator(application_name=old).as_teardown(setups=begin)
            bring_back = BringBackOperator(application_name=name).as_teardown(setups=begin)
            (
                choose
                >> PlanUpgradeOperator(application_name=name)
                >> ApprovePlanOperator(application_name=name, subject=f"Upgrade to {name}?")
                >> begin
                >> CaptureCutOperator(application_name=old)
                >> RetireOperator(application_name=name)
                >> CopyRecordsOperator(application_name=old)
                >> publish
                >> finish_savepoint
                >> bring_back
            )
            publish >> ReportSavepointOperator(summary=result_of("retire.publish"), about=old, known=False)

        with TaskGroup("upgrade"):
            saved = CLONE | {"savepoint": "{{ ti.xcom_pull(task_ids='retire.publish')['savepoint_id'] }}"}
            open_upgrade = OpenUpgradeOperator(application_name=name, fixed=saved).as_setup()
            chain(
                publish,
                PlanCloneOperator(application_name=name, fixed=saved),
                open_upgrade,
                *replace_state(name, grouped=False),
                ResetConsumerGroupOperator(application_name=name),
                WipeStateOperator(application_name=name),
                MakeLiveOperator(application_name=name),
                StartApplicationOperator(application_name=name),
                AwaitRecoveredOperator(application_name=name),
                FinishRestoreOperator(application_name=name),
                AbandonRestoreOperator(application_name=name).as_teardown(setups=open_upgrade),
                bring_back,
            )
    return dag


CLONE_PARAM = {"title": "Clone", "description": "The new application."}
APPLICATIONS = restorable()
CLONES = {name: config for name, config in APPLICATIONS.items() if config.clone is not None}
# Without any clone the shared DAG is there all the same, and says what is missing.
SCOPES = [one for one in scopes("streams_clone", CLONES or APPLICATIONS, **CLONE_PARAM) if CLONES or not one.known]
globals().update(by_id(dag_of(scope) for scope in SCOPES))
