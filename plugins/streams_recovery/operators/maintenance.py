"""The tasks that look after a repository and after an application between restores: check, expiry, compaction, later input, configurations, runs.

Each of check, compaction and later input has a Spark job between its tasks here; the jobs are in spark.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from streams_recovery.core.approval import approval
from streams_recovery.core.errors import NotFound
from streams_recovery.core.escaping import Markdown, code, joined, md
from streams_recovery.core.repository.check import CheckReport
from streams_recovery.core.repository.retention import Apply, outlook_text
from streams_recovery.core.scheduled_run import ScheduledRun, parse_limit
from streams_recovery.core.words import LATEST
from streams_recovery.hooks.context import Logged
from streams_recovery.operations import compaction, maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore import AppendPlan
from streams_recovery.operators.base import StepOperator, requested_by, run_id_of
from streams_recovery.operators.form import UnusableConfiguration, unusable_configurations
from streams_recovery.operators.restore import planned
from streams_recovery.workflows import maintenance as steps


class PlanCheckOperator(StepOperator):
    """Read manifests, ask for every file's size, and choose what to read. ``savepoint`` is an id, ``latest`` or ``all``; levels are in
    ``core.repository.check``.
    """

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


class ApplyOperator(StepOperator):
    """A task that does what the plan shows, or only shows it, as ``apply`` renders: ``true``, ``false`` or ``after_days``."""

    template_fields: Sequence[str] = (*StepOperator.template_fields, "apply")

    def __init__(self, *, apply: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.apply = apply


class ExpireOperator(ApplyOperator):
    """Carry it out as ``apply`` renders: ``true``, ``false``, or ``after_days``, which announces first and deletes from the announced day on. Skips when
    nothing is to be removed yet.
    """

    takes = steps.EXPIRE

    def step(self, recovery: RecoveryContext, context: Context) -> maintenance.ExpireReport:
        outlook = maintenance.scheduled(recovery, run_id_of(context), Apply(self.apply))
        if not outlook.due:
            why = "The param `apply` is false." if outlook.apply is Apply.NO else outlook_text(outlook)
            raise AirflowSkipException(f"Nothing was removed. {why}")
        report = maintenance.expire(recovery, run_id_of(context))
        for left in report.left:
            self.log.warning("Could not be removed: %s", left)
        for kept in report.plan.not_judged:
            self.log.warning("Stays: %s", kept)
        return report


class MirrorOperator(StepOperator):
    """Copy what the second place of the repository lacks, and read it there. Fails the run when something is not there or is another one."""

    takes = steps.MIRROR

    def step(self, recovery: RecoveryContext, context: Context) -> maintenance.MirrorReport:
        report: maintenance.MirrorReport = self.called(recovery, lambda text: self.log.info("%s", text))
        for one in report.damaged:
            self.log.error("%s", one.why)
        maintenance.raise_unless_mirrored(report)
        return report


class PlanCompactionOperator(StepOperator):
    """Show what would be compacted, and leave the job its specification. Skips when there is nothing to do. ``savepoint`` is an id or ``latest``,
    ``how`` is ``latest-per-key`` or ``small-files``.
    """

    takes = steps.PLAN_COMPACTION
    template_fields: Sequence[str] = (*StepOperator.template_fields, "savepoint", "how", "reason")

    def __init__(self, *, savepoint: str = LATEST, how: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.how = how
        self.reason = reason

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.CompactTicket:
        request = compaction.CompactRequest(
            savepoint=self.savepoint,
            how=compaction.How(self.how),
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            reason=self.reason,
        )
        plan = compaction.plan(recovery, request.savepoint, request.how)
        self.log.info("%s", compaction.compaction_text(plan))
        if why := self.why_not(plan):
            raise AirflowSkipException(why)
        return compaction.begin(recovery, request, plan)

    def why_not(self, plan: compaction.CompactionPlan) -> str:
        """The reason to skip, empty if there is something to do."""
        if plan.ranges:
            return ""
        if plan.how is compaction.How.SMALL_FILES:
            return f"No files of savepoint {plan.savepoint_id} are worth merging"
        return f"Nothing of savepoint {plan.savepoint_id} can be compacted, or all of it is already"


class PlanMergeOperator(PlanCompactionOperator):
    """Show which small files of the newest savepoint would be merged before an expiry. Skips as ``PlanCompactionOperator`` does, when
    ``retention.merge_files`` is 0, and when the run only shows its plan: ``apply`` is as for ``ExpireOperator``.
    """

    template_fields: Sequence[str] = (*PlanCompactionOperator.template_fields, "apply")

    def __init__(self, *, apply: str, **kwargs: Any) -> None:
        super().__init__(how=compaction.How.SMALL_FILES.value, reason="small files merged by the expiry", **kwargs)
        self.apply = apply

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.CompactTicket:
        if not recovery.config.retention.merge_files:
            raise AirflowSkipException("No files are merged: retention.merge_files is 0")
        try:
            return super().step(recovery, context)
        except NotFound as error:
            raise AirflowSkipException(f"No files are merged: {error.reason}") from error

    def why_not(self, plan: compaction.CompactionPlan) -> str:
        return "No files are merged. The param `apply` is false." if Apply(self.apply) is Apply.NO else super().why_not(plan)


class PublishCompactedOperator(StepOperator):
    """Make the new savepoint exist when it is proven to hold the same."""

    takes = steps.PUBLISH_COMPACTED


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
    """Give the lock back, whatever failed. Written records stay: the next run goes on behind them."""

    takes = steps.LEAVE_APPEND


class CheckConfigurationOperator(Logged, BaseOperator):
    """Read the configurations again. Fails with what is wrong, as long as something is. ``application_name`` is the stem of the file."""

    def __init__(self, *, application_name: str, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.application_name = application_name

    def execute(self, context: Context) -> None:
        found = unusable_configurations().get(self.application_name)
        if found is not None:
            raise AirflowFailException(str(found.error))
        self.log.info("The configuration of %s can be used; its DAGs come back with the next parsing", self.application_name)


class StartRunOperator(StepOperator):
    """Capture where the inputs end and start the application. ``until`` is ``ends`` or ``duration:...``; empty, as configured."""

    takes = steps.START
    template_fields: Sequence[str] = (*StepOperator.template_fields, "until")

    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until

    def step(self, recovery: RecoveryContext, context: Context) -> ScheduledRun:
        started: ScheduledRun = self.called(recovery, parse_limit(self.until or recovery.config.run.until), run_id=run_id_of(context))
        return started


class StopRunOperator(StepOperator):
    """Stop the application again."""

    takes = steps.STOP


def explanation(name: str, found: UnusableConfiguration) -> Markdown:
    """The page of the DAG of a configuration that cannot be used."""
    effect = "no DAG restores this application" if found.partly else "this application has no other DAG"
    rest = "Savepoints of it are taken" if found.partly else "No savepoint of it is taken"
    return joined(
        [
            md("The configuration of {} cannot be used, so {}. {}.\n", code(name), effect, rest),
            *(md("- {}", line) for line in found.error.reason.splitlines()),
            md("\nNext: {}.\n", found.error.next_step),
            md(
                "This DAG goes away when the configuration can be used again. Until then, where only another file contradicts this one, the commands of "
                "`streams-recovery` work for it.\n"
            ),
        ]
    )
