"""The tasks that put later input behind the inputs again. The Spark job is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.core.approval import approval
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import AppendPlan
from streams_recovery.operators.base import StepOperator
from streams_recovery.operators.restore import planned
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.workflows import maintenance as steps


class PlanAppendOperator(StepOperator):
    """Show what would be appended. ``restore`` is the id of the restore that has set it aside, or ``latest``. The result is what is approved."""

    takes = steps.PLAN_APPEND
    template_fields: Sequence[str] = (*StepOperator.template_fields, "restore")

    def __init__(self, *, restore: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.restore = restore

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        plan: AppendPlan = self.called(recovery, self.restore)
        self.log.info("%s", plan.text)
        return {"hash": approval(plan), "restore": plan.restore_id, "text": plan.text}


class OpenAppendOperator(StepOperator):
    """Take the lock and plan again under it, for the ``restore`` that was shown. Another plan than the one whose hash is ``approved_hash`` stops here."""

    takes = steps.OPEN_APPEND
    after_approval = True
    template_fields: Sequence[str] = (*StepOperator.template_fields, "restore", "approved_hash")

    def __init__(self, *, restore: str = "", approved_hash: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.restore = restore or planned("restore", self.task_id)
        self.approved_hash = approved_hash or planned("hash", self.task_id)

    def step(self, recovery: RecoveryContext, context: Context) -> Any:
        return self.called(
            recovery, self.restore, run_id=run_id_of(context), requested_by=requested_by(context), approved_hash=self.approved_hash
        )


class FinishAppendOperator(StepOperator):
    """See that all of it is there."""

    takes = steps.FINISH_APPEND


class LeaveAppendOperator(StepOperator):
    """Give the lock back, whatever failed. What was written stays: the next run goes on behind it."""

    takes = steps.LEAVE_APPEND
