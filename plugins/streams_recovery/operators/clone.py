"""The tasks by which outputs are transferred between an application and its clone, and those of an upgrade in one go.

``application_name`` is always the clone's; its configuration says which application it is a clone of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import Context

from streams_recovery.core.approval import approval
from streams_recovery.core.forms import request_of
from streams_recovery.core.restore.request import SOURCE
from streams_recovery.core.rollout.cutover import UpgradePlan, cutover_text, upgrade_text
from streams_recovery.hooks.context import context_of
from streams_recovery.operations import rollout
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operators.base import ParamsOperator, StepOperator, original_of, requested_by, run_id_of
from streams_recovery.operators.restore import OpenRestoreOperator, PlanRestoreOperator, planned
from streams_recovery.workflows import rollout as steps


class ChooseStepOperator(BaseBranchOperator):
    """Goes on with the task that belongs to ``step``; the others are skipped. ``first_tasks`` has one for each step."""

    template_fields: Sequence[str] = ("step",)

    def __init__(self, *, step: str, first_tasks: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.first_tasks = dict(first_tasks)

    def choose_branch(self, context: Context) -> str:
        return self.first_tasks[self.step]


class PlanCloneOperator(PlanRestoreOperator):
    """Show what the restore would do with which the clone begins: from a savepoint of the application that it is a clone of."""

    def given(self) -> dict[str, Any]:
        """With the source that the configuration names."""
        return super().given() | {SOURCE.name: original_of(self.application_name)}


class OpenCloneOperator(OpenRestoreOperator):
    """Open that restore."""

    def given(self) -> dict[str, Any]:
        """With the source that the configuration names."""
        return super().given() | {SOURCE.name: original_of(self.application_name)}


class OpenUpgradeOperator(OpenCloneOperator):
    """Open the restore of an upgrade in one go, as long as that has not ended: nobody approves it again."""

    def step(self, recovery: RecoveryContext, context: Context) -> RestoreTicket:
        with context_of(original_of(self.application_name)) as old:
            rollout.require_retired(old, recovery, self.fixed["savepoint"])
        return super().step(recovery, context)


class CutoverRequestedOperator(ParamsOperator):
    """A task that begins with a person's request: the params ``step``, ``restore_first`` and ``reason``."""

    @property
    def request(self) -> rollout.CutoverRequest:
        """The request itself."""
        return request_of(rollout.CutoverRequest, self.params_of_run())


class PlanCutoverOperator(CutoverRequestedOperator):
    """Show what a cut-over or a way back would do. Changes nothing."""

    takes = steps.PLAN

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, Any]:
        plan: rollout.CutoverPlan = self.called(recovery, self.request)
        text = cutover_text(plan)
        self.log.info("%s", text)
        return {"hash": approval(plan), "text": text, "again": plan.again, "tail": plan.tail, "lag": plan.lag}


class OpenCutoverOperator(CutoverRequestedOperator):
    """Take both locks and plan again under them. Another plan than the one whose hash is ``approved_hash`` stops the run here."""

    takes = steps.OPEN
    after_approval = True
    template_fields: Sequence[str] = (*CutoverRequestedOperator.template_fields, "approved_hash")

    def __init__(self, *, approved_hash: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved_hash = approved_hash or planned("hash", self.task_id)

    def step(self, recovery: RecoveryContext, context: Context) -> Any:
        return self.called(
            recovery,
            self.request,
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            approved_hash=self.approved_hash,
        )


class StopForCutoverOperator(StepOperator):
    """Stop the clone, and for a cut-over also the application that it replaces, once that has read as much."""

    takes = steps.STOP


class TransferOutputsOperator(StepOperator):
    """Put on record who writes the outputs from now on."""

    takes = steps.TRANSFER_OUTPUTS


class StartLiveOperator(StepOperator):
    """Start the application that writes the outputs."""

    takes = steps.START_LIVE


class AwaitLiveOperator(StepOperator):
    """Wait until it is RUNNING and has read its inputs to the ends they had."""

    takes = steps.AWAIT_LIVE


class FinishCutoverOperator(StepOperator):
    """Write the report and give both locks back."""

    takes = steps.FINISH


class AbandonCutoverOperator(StepOperator):
    """After a failure: leave both applications as the repository says they are. Nothing after success."""

    takes = steps.ABANDON


class PlanUpgradeOperator(StepOperator):
    """Show what an upgrade in one go would do. Changes nothing."""

    takes = steps.PLAN_UPGRADE

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        plan: UpgradePlan = self.called(recovery)
        text = upgrade_text(plan)
        self.log.info("%s", text)
        return {"text": text, "old": original_of(self.application_name)}


class RetireOperator(StepOperator):
    """Put on record that the old application stays down."""

    takes = steps.RETIRE
    after_approval = True


class MakeLiveOperator(StepOperator):
    """Put on record that the clone, restored and not started yet, writes the real outputs."""

    takes = steps.MAKE_LIVE


class BringBackOperator(StepOperator):
    """The end of an upgrade, however it went: unless the clone is live, the old application runs again."""

    takes = steps.BRING_BACK
