"""The steps of an audit of the repository. The Spark step between them is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery import upkeep
from streams_recovery.core.audit import AuditReport
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.moment import run_id_of
from streams_recovery.operators.spark import SparkOutcome
from streams_recovery.workbench import Workbench


class PlanAuditOperator(StepOperator):
    """Read manifests, ask for every file's size, and choose what to read. ``savepoint`` is an id or ``all``; see ``core.audit`` for levels."""

    template_fields: Sequence[str] = ("application_name", "savepoint", "level")

    def __init__(self, *, savepoint: str, level: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.level = level

    def step(self, bench: Workbench, context: Context) -> upkeep.AuditTicket:
        """Plan."""
        return upkeep.plan_audit(bench, savepoint=self.savepoint, level=self.level, run_id=run_id_of(context))


class ConcludeAuditOperator(StepOperator):
    """The verdict. Fails the run when anything is wrong, and when nothing was checked."""

    template_fields: Sequence[str] = ("application_name", "ticket", "outcome")

    def __init__(self, *, ticket: str, outcome: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket
        self.outcome = outcome

    def step(self, bench: Workbench, context: Context) -> AuditReport:  # noqa: ARG002
        """Conclude."""
        ticket = received(upkeep.AuditTicket, self.ticket, "plan")
        report = upkeep.conclude_audit(bench, ticket, received(SparkOutcome, self.outcome, "the Spark job").result_key)
        for found in report.findings:
            self.log.error("%s", found)
        upkeep.raise_unless_good(report)
        return report
