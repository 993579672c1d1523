"""The tasks that make a savepoint smaller. The Spark job is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

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
