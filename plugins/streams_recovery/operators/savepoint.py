"""The steps of a savepoint, in the order in which they are taken. The Spark step between capture and gather is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context, timezone
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.run_facts import requested_by, run_id_of, too_late
from streams_recovery.operators.spark import SparkOutcome


class BeginSavepointOperator(StepOperator):
    """Take the lock, remember which instances run, set the compaction guard. Skips, before it does anything, when the run stands for the past.

    ``mode`` overrides the configured way of holding the application when it is not empty. ``changed_state`` says what to do when state was lost or
    replaced since the last savepoint, with the application id as ``confirm`` unless it is to be refused.
    """

    template_fields: Sequence[str] = ("application_name", "reason", "mode", "changed_state", "confirm")

    def __init__(self, *, reason: str, mode: str, changed_state: str, confirm: str, schedule: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.mode = mode
        self.changed_state = changed_state
        self.confirm = confirm
        self.schedule = schedule

    def execute(self, context: Context) -> Any:
        """Skip or begin."""
        run = context["dag_run"]
        if late := too_late(run.run_type, run.run_after, self.schedule, timezone.utcnow()):
            raise AirflowSkipException(f"No savepoint was taken and nothing was touched: {late}")
        return super().execute(context)

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.Ticket:
        """Begin."""
        request = savepoint.SavepointRequest(
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            reason=self.reason,
            mode=QuiesceMode(self.mode) if self.mode else None,
            changed_state=ChangedState(self.changed_state),
            confirm=self.confirm,
        )
        return savepoint.begin(recovery, request)


class SavepointStepOperator(StepOperator):
    """A step that belongs to a savepoint already begun. ``ticket`` is the JSON that begin returned."""

    template_fields: Sequence[str] = ("application_name", "ticket")

    def __init__(self, *, ticket: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ticket = ticket

    @property
    def held_ticket(self) -> savepoint.Ticket:
        """The ticket itself."""
        return received(savepoint.Ticket, self.ticket, "begin")


class QuiesceOperator(SavepointStepOperator):
    """Hold the application still, the configured way."""

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.Quiesced:
        """Quiesce."""
        return savepoint.quiesce(recovery, self.held_ticket)


class CaptureCutOperator(SavepointStepOperator):
    """Read the cut and copy the repartition tails while the application is held. ``quiesced`` is the JSON that quiesce returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "quiesced")

    def __init__(self, *, quiesced: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.quiesced = quiesced

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.CutSummary:
        """Capture."""
        return savepoint.capture(recovery, self.held_ticket, received(savepoint.Quiesced, self.quiesced, "quiesce"))


class ResumeApplicationOperator(SavepointStepOperator):
    """Let go of the application: every instance that ran at the beginning runs again. Safe to repeat."""

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.ResumeReport:
        """Resume."""
        return savepoint.resume(recovery, self.held_ticket)


class GatherSegmentsOperator(SavepointStepOperator):
    """Check that the copy is whole and that every file it names exists. ``copied`` is the JSON that the Spark step returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "copied")

    def __init__(self, *, copied: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.copied = copied

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.GatherSummary:
        """Gather."""
        copied = received(SparkOutcome, self.copied, "the Spark job")
        return savepoint.gather(recovery, self.held_ticket, copied.plan, copied.result)


class PublishSavepointOperator(SavepointStepOperator):
    """Write the manifest. Before this the savepoint does not exist, after it, it does. ``gathered`` is the JSON that gathering returned."""

    template_fields: Sequence[str] = ("application_name", "ticket", "gathered")

    def __init__(self, *, gathered: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gathered = gathered

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.SavepointSummary:
        """Publish."""
        return savepoint.publish(recovery, self.held_ticket, received(savepoint.GatherSummary, self.gathered, "gathering").copied)


class FinishSavepointOperator(SavepointStepOperator):
    """Release the compaction guard and the lock, after success and after failure. Safe to repeat."""

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.FinishReport:
        """Finish."""
        return savepoint.finish(recovery, self.held_ticket)
