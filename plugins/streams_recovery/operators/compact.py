"""The tasks that make a savepoint smaller, or join its small files. The Spark jobs are in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core.errors import NotFound
from streams_recovery.core.ids import LATEST
from streams_recovery.core.repository.announcement import Apply
from streams_recovery.operations import compaction
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.workflows import maintenance as steps


class PlanCompactionOperator(StepOperator):
    """Show what would be compacted, and leave the job its specification. Skips when there is nothing to compact. ``savepoint`` is an id or ``latest``."""

    takes = steps.PLAN_COMPACTION
    template_fields: Sequence[str] = (*StepOperator.template_fields, "savepoint", "reason")

    def __init__(self, *, savepoint: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.reason = reason

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.CompactTicket:
        request = compaction.CompactRequest(
            savepoint=self.savepoint, run_id=run_id_of(context), requested_by=requested_by(context), reason=self.reason
        )
        plan = compaction.plan(recovery, self.savepoint)
        self.log.info("%s", compaction.compaction_text(plan))
        ticket = compaction.begin(recovery, request, plan)
        if ticket.spec is None:
            raise AirflowSkipException(f"Nothing of savepoint {ticket.source_id} can be compacted, or all of it is already")
        return ticket


class PublishCompactedOperator(StepOperator):
    """Make the compacted savepoint exist when its state is proven to be the same."""

    takes = steps.PUBLISH_COMPACTED


class PlanMergeOperator(StepOperator):
    """Show which small files of the newest savepoint would be joined, and leave the job its specification. Skips when nothing is worth it, and when the run
    only shows what it would do: ``apply`` renders to what it is for ``ExpireOperator``.
    """

    takes = steps.PLAN_MERGE
    template_fields: Sequence[str] = (*StepOperator.template_fields, "apply")

    def __init__(self, *, apply: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.apply = apply

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.merge.MergeTicket:
        if not recovery.config.retention.merge_files:
            raise AirflowSkipException("No files are merged: retention.merge_files is 0")
        request = compaction.merge.MergeRequest(
            savepoint=LATEST, run_id=run_id_of(context), requested_by=requested_by(context), reason="small files merged by the expiry"
        )
        try:
            plan = compaction.merge.plan(recovery, LATEST)
        except NotFound as error:
            raise AirflowSkipException(f"No files are merged: {error.reason}") from error
        self.log.info("%s", compaction.merge.merge_text(plan))
        if Apply(self.apply) is Apply.NO:
            raise AirflowSkipException("No files are merged. The param `apply` is false.")
        if not plan.groups:
            raise AirflowSkipException(f"No files of savepoint {plan.savepoint_id} are worth merging")
        return compaction.merge.begin(recovery, request, plan)


class PublishMergedOperator(StepOperator):
    """Make the savepoint with the joined files exist when every record is proven to be the same."""

    takes = steps.PUBLISH_MERGED
