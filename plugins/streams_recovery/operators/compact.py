"""The steps that make a savepoint smaller. The Spark step is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery import compacting
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.moment import requested_by, run_id_of
from streams_recovery.operators.spark import SparkOutcome
from streams_recovery.workbench import Workbench


class PlanCompactionOperator(StepOperator):
    """Say what would be reduced, and leave the job its specification. Skips when there is nothing to reduce. ``savepoint`` is an id or ``latest``."""

    template_fields: Sequence[str] = ("application_name", "savepoint", "reason")

    def __init__(self, *, savepoint: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.reason = reason

    def step(self, bench: Workbench, context: Context) -> compacting.CompactTicket:
        """Plan."""
        request = compacting.CompactRequest(
            savepoint=self.savepoint, run_id=run_id_of(context), requested_by=requested_by(context), reason=self.reason
        )
        planned = compacting.plan(bench, self.savepoint)
        self.log.info("%s", compacting.reduction_text(planned))
        ticket = compacting.begin(bench, request, planned)
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

    def step(self, bench: Workbench, context: Context) -> compacting.CompactSummary:
        """Publish."""
        ticket = received(compacting.CompactTicket, self.ticket, "plan")
        return compacting.publish(bench, ticket, received(SparkOutcome, self.outcome, "the Spark job").result)
