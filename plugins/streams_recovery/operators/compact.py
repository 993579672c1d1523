"""The steps that make a savepoint smaller. The Spark step is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.operations import compaction
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.operators.spark import SparkOutcome


class PlanCompactionOperator(StepOperator):
    """Say what would be reduced, and leave the job its specification. Skips when there is nothing to reduce. ``savepoint`` is an id or ``latest``."""

    template_fields: Sequence[str] = ("application_name", "savepoint", "reason")

    def __init__(self, *, savepoint: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.reason = reason

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.CompactTicket:
        """Plan."""
        request = compaction.CompactRequest(
            savepoint=self.savepoint, run_id=run_id_of(context), requested_by=requested_by(context), reason=self.reason
        )
        planned = compaction.plan(recovery, self.savepoint)
        self.log.info("%s", compaction.compaction_text(planned))
        ticket = compaction.begin(recovery, request, planned)
        if ticket.spec is None:
            raise AirflowSkipException(f"Nothing of savepoint {ticket.source_id} can be reduced, or all of it is already")
        return ticket


class PublishCompactionOperator(StepOperator):
    """Make the reduced savepoint exist when its state is proven to be the same. ``ticket`` and ``outcome`` are the JSON of the tasks before."""

    template_fields: Sequence[str] = ("application_name", "ticket", "outcome")

    def __init__(self, *, ticket: str, outcome: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket
        self.outcome = outcome

    def step(self, recovery: RecoveryContext, context: Context) -> compaction.CompactSummary:
        """Publish."""
        ticket = received(compaction.CompactTicket, self.ticket, "plan")
        return compaction.publish(recovery, ticket, received(SparkOutcome, self.outcome, "the Spark job").result)
