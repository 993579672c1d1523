"""The steps that put later input behind the inputs again. The Spark step is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.operations import restore as restores
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.run_facts import requested_by, run_id_of
from streams_recovery.operators.spark import SparkOutcome


class PlanAppendOperator(StepOperator):
    """Say what would be appended. ``restore`` is the id of the restore that has set it aside, or ``latest``. The result is what is approved."""

    template_fields: Sequence[str] = ("application_name", "restore")

    def __init__(self, *, restore: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.restore = restore

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, str]:
        """Plan."""
        planned = restores.plan_append(recovery, self.restore)
        self.log.info("%s", planned.text)
        return {"hash": planned.hash, "restore": planned.restore_id, "text": planned.text}


class OpenAppendOperator(StepOperator):
    """Take the lock and plan again under it. ``approved_hash`` is the plan that was approved; another one stops here."""

    template_fields: Sequence[str] = ("application_name", "restore", "approved_hash")

    def __init__(self, *, restore: str, approved_hash: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.restore = restore
        self.approved_hash = approved_hash

    def step(self, recovery: RecoveryContext, context: Context) -> restores.AppendTicket:
        """Open."""
        return restores.open_append(
            recovery, self.restore, run_id=run_id_of(context), requested_by=requested_by(context), approved_hash=self.approved_hash
        )


class FinishAppendOperator(StepOperator):
    """See that all of it is there. ``ticket`` and ``outcome`` are the JSON of the tasks before."""

    template_fields: Sequence[str] = ("application_name", "ticket", "outcome")

    def __init__(self, *, ticket: str, outcome: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket
        self.outcome = outcome

    def step(self, recovery: RecoveryContext, context: Context) -> restores.AppendReport:
        """Finish."""
        ticket = received(restores.AppendTicket, self.ticket, "open")
        return restores.finish_append(recovery, ticket, received(SparkOutcome, self.outcome, "the Spark job").result)


class LeaveAppendOperator(StepOperator):
    """Give the lock back, whatever failed. What was written stays: the next run goes on behind it."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    def step(self, recovery: RecoveryContext, context: Context) -> None:
        """Leave."""
        restores.leave_append(recovery, received(restores.AppendTicket, self.ticket, "open"))
