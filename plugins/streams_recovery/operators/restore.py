"""The steps of a restore in place, in the order in which they are taken. The Spark steps are in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery import restores
from streams_recovery.core.plan_text import markdown
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.moment import requested_by, run_id_of
from streams_recovery.operators.spark import SparkOutcome
from streams_recovery.workbench import Workbench


class RequestedOperator(StepOperator):
    """A step that starts from what a person asked for: templates of the run's params."""

    template_fields: Sequence[str] = ("application_name", "savepoint", "allow_ahead", "reason")

    def __init__(self, *, savepoint: str, allow_ahead: str, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.savepoint = savepoint
        self.allow_ahead = allow_ahead
        self.reason = reason

    @property
    def request(self) -> restores.RestoreRequest:
        """The request itself. A rendered boolean is a text."""
        return restores.RestoreRequest(savepoint=self.savepoint, allow_ahead=str(self.allow_ahead) == "True", reason=self.reason)


class PlanRestoreOperator(RequestedOperator):
    """Say what the restore would do. Changes nothing; the result is what is approved."""

    def step(self, bench: Workbench, context: Context) -> dict[str, str]:  # noqa: ARG002
        """Plan."""
        planned = restores.plan(bench, self.request)
        text = markdown(planned)
        self.log.info("%s", text)
        return {"hash": planned.hash, "savepoint": planned.savepoint_id, "text": text}


class OpenRestoreOperator(RequestedOperator):
    """Take the lock and plan again under it. ``approved_hash`` is the plan that was approved; another one stops here."""

    template_fields: Sequence[str] = (*RequestedOperator.template_fields, "approved_hash")

    def __init__(self, *, approved_hash: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.approved_hash = approved_hash

    def step(self, bench: Workbench, context: Context) -> restores.RestoreTicket:
        """Open."""
        return restores.open_restore(
            bench, self.request, run_id=run_id_of(context), requested_by=requested_by(context), approved_hash=self.approved_hash
        )


class RestoreStepOperator(StepOperator):
    """A step of a restore that is open. ``ticket`` is the JSON that open returned."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    @property
    def held_ticket(self) -> restores.RestoreTicket:
        """The ticket itself."""
        return received(restores.RestoreTicket, self.ticket, "open")


class StopApplicationOperator(RestoreStepOperator):
    """Stop every instance, prove it, and empty the group."""

    def step(self, bench: Workbench, context: Context) -> restores.StopSummary:  # noqa: ARG002
        """Stop."""
        return restores.stop(bench, self.held_ticket)


class PrepareTopicsOperator(RestoreStepOperator):
    """Create the internal topics, empty and under hold."""

    def step(self, bench: Workbench, context: Context) -> restores.PrepareSummary:  # noqa: ARG002
        """Prepare."""
        return restores.prepare(bench, self.held_ticket)


class CheckedStepOperator(RestoreStepOperator):
    """A step after a Spark job. ``outcome`` is the JSON that the job's task returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "outcome")

    def __init__(self, *, outcome: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.outcome = outcome

    @property
    def result_key(self) -> str | None:
        """Where the job left its result."""
        return received(SparkOutcome, self.outcome, "the Spark job").result_key


class CheckLoadOperator(CheckedStepOperator):
    """Compare what was written with the plan and with the logs' ends."""

    def step(self, bench: Workbench, context: Context) -> restores.LoadSummary:  # noqa: ARG002
        """Check."""
        return restores.check_load(bench, self.held_ticket, self.result_key)


class VerifyChangelogsOperator(CheckedStepOperator):
    """Fail unless savepoint and topics are equal, row by row and key by key."""

    def step(self, bench: Workbench, context: Context) -> restores.VerifySummary:  # noqa: ARG002
        """Verify."""
        return restores.check_verify(bench, self.held_ticket, self.result_key)


class ResetConsumerGroupOperator(RestoreStepOperator):
    """Set committed offsets and their metadata, and read them back."""

    def step(self, bench: Workbench, context: Context) -> restores.OffsetsSummary:  # noqa: ARG002
        """Set."""
        return restores.set_offsets(bench, self.held_ticket)


class WipeStateOperator(RestoreStepOperator):
    """Remove local state on every instance."""

    def step(self, bench: Workbench, context: Context) -> restores.WipeSummary:  # noqa: ARG002
        """Wipe."""
        return restores.wipe(bench, self.held_ticket)


class StartApplicationOperator(RestoreStepOperator):
    """Start every instance on the restored state."""

    def step(self, bench: Workbench, context: Context) -> restores.StartSummary:  # noqa: ARG002
        """Start."""
        return restores.start(bench, self.held_ticket)


class AwaitRecoveredOperator(RestoreStepOperator):
    """Wait until the application is RUNNING and caught up. ``started`` is the JSON that start returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "started")

    def __init__(self, *, started: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.started = started

    def step(self, bench: Workbench, context: Context) -> restores.RecoveredSummary:  # noqa: ARG002
        """Wait."""
        return restores.await_recovered(bench, self.held_ticket, received(restores.StartSummary, self.started, "start"))


class FinishRestoreOperator(RestoreStepOperator):
    """Release holds, write the evidence, give the lock back. ``verified`` is the JSON that the verification returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "verified")

    def __init__(self, *, verified: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.verified = verified

    def step(self, bench: Workbench, context: Context) -> restores.RestoreReport:  # noqa: ARG002
        """Finish."""
        return restores.finish(bench, self.held_ticket, received(restores.VerifySummary, self.verified, "the verification"))


class AbandonRestoreOperator(RestoreStepOperator):
    """After any failure: bring the application back while nothing was destroyed, else leave it down and say what to do. Nothing after success."""

    def step(self, bench: Workbench, context: Context) -> restores.AbandonReport:  # noqa: ARG002
        """Abandon."""
        report = restores.abandon(bench, self.held_ticket)
        self.log.info("Restore left in phase %s: %s", report.phase, report.next_step)
        return report
