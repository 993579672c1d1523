"""The tasks that look after a repository: check and expiry. The Spark job of a check is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core.repository.announcement import Apply, outlook_text
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator
from streams_recovery.operators.run_facts import run_id_of
from streams_recovery.workflows import maintenance as steps


class PlanCheckOperator(StepOperator):
    """Read manifests, ask for every file's size, and choose what to read. ``savepoint`` is an id or ``all``; see ``core.repository.check`` for levels."""

    takes = steps.PLAN_CHECK
    template_fields: Sequence[str] = (*StepOperator.template_fields, "savepoint", "level")

    def __init__(self, *, savepoint: str, level: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.level = level

    def step(self, recovery: RecoveryContext, context: Context) -> maintenance.CheckTicket:
        return maintenance.plan_check(recovery, savepoint=self.savepoint, level=self.level, run_id=run_id_of(context))


class ConcludeCheckOperator(StepOperator):
    """The verdict. Fails the run when anything is wrong, and when nothing was checked."""

    takes = steps.CONCLUDE_CHECK

    def step(self, recovery: RecoveryContext, context: Context) -> CheckReport:
        report: CheckReport = self.called(recovery)
        for found in report.findings:
            self.log.error("%s", found)
        if report.sampling is not None:
            self.log.info("%s", report.sampling)
        for left in report.left_behind.lines() if report.left_behind is not None else ():
            self.log.info("%s", left)
        maintenance.raise_unless_good(report)
        return report


class PlanExpiryOperator(StepOperator):
    """Show which savepoints the rules keep and which expire. Changes nothing."""

    takes = steps.PLAN_EXPIRY

    def step(self, recovery: RecoveryContext, context: Context) -> maintenance.ExpirePlan:
        plan = maintenance.plan_expiry(recovery)
        self.log.info("%s", maintenance.expiry_text(plan))
        return plan


class ExpireOperator(StepOperator):
    """Carry it out as ``apply`` renders: ``true``, ``false``, or ``after_days``, which announces first and deletes from the announced day on. Skips when
    nothing is to be removed yet.
    """

    takes = steps.EXPIRE
    template_fields: Sequence[str] = (*StepOperator.template_fields, "apply")

    def __init__(self, *, apply: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.apply = apply

    def step(self, recovery: RecoveryContext, context: Context) -> maintenance.ExpireReport:
        outlook = maintenance.scheduled(recovery, run_id_of(context), Apply(self.apply))
        if not outlook.due:
            why = "The param `apply` is false." if outlook.apply is Apply.NO else outlook_text(outlook)
            raise AirflowSkipException(f"Nothing was removed. {why}")
        report = maintenance.expire(recovery, run_id_of(context))
        for left in report.left:
            self.log.warning("Could not be removed: %s", left)
        return report
