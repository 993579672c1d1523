"""The tasks of a savepoint, in the order in which they are taken. The Spark job between *capture_cut* and *publish* is in spark.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk import Context, timezone
from airflow.sdk.exceptions import AirflowSkipException

from streams_recovery.core.archive.tick import HAND_OVER_SECONDS
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.operations import archive, savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.first_savepoint import savepoint_lines
from streams_recovery.operators.base import StepOperator, requested_by, run_id_of, too_late
from streams_recovery.workflows import savepoint as steps

# Airflow's weight of a task: more than all others of a run have together.
_LETS_GO: Final = 1_000


class BeginSavepointOperator(StepOperator):
    """Take the lock, remember which instances run, set the compaction guard. Skips, before it does anything, when the run stands for the past:
    a backfill, or a run by ``schedule`` that is later than the next one.

    ``mode`` is how the application is held: ``pause``, ``stop``, ``live``, or empty for the configured way. ``changed_state`` says what to do when
    state was lost or replaced since the last savepoint: ``refuse``, ``damaged`` or ``intended``. The last two need the application id as ``confirm``.
    """

    takes = steps.BEGIN
    # In an upgrade it is what first touches the old application.
    after_approval = True
    template_fields: Sequence[str] = (*StepOperator.template_fields, "reason", "mode", "changed_state", "confirm")

    def __init__(
        self,
        *,
        reason: str = "",
        mode: str = "",
        changed_state: str = "refuse",
        confirm: str = "",
        schedule: str | None = None,
        **kwargs: Any,
    ) -> None:
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
            raise AirflowSkipException(f"No savepoint was taken and nothing was changed: {late}")
        return super().execute(context)

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.Ticket:
        request = savepoint.SavepointRequest(
            run_id=run_id_of(context),
            requested_by=requested_by(context),
            reason=self.reason,
            mode=QuiesceMode(self.mode) if self.mode else None,
            changed_state=ChangedState(self.changed_state),
            confirm=self.confirm,
        )
        return savepoint.begin(recovery, request)


class CaptureCutOperator(StepOperator):
    """Hold the application still, the configured way; read the cut, and copy the tails of repartition topics."""

    takes = steps.CAPTURE_CUT


class ResumeApplicationOperator(StepOperator):
    """Every instance that ran at the beginning runs again. Safe to repeat. It goes before all other tasks that wait for a worker."""

    takes = steps.RESUME

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"priority_weight": _LETS_GO} | kwargs)


class PublishSavepointOperator(StepOperator):
    """Check that the copy is whole and that every file it names exists, and write the manifest. Before this the savepoint does not exist, after it, it does."""

    takes = steps.PUBLISH

    def step(self, recovery: RecoveryContext, context: Context) -> savepoint.PublishedSavepoint:
        published: savepoint.PublishedSavepoint = super().step(recovery, context)
        for line in savepoint_lines(recovery, published):
            self.log.info("%s", line)
        return published


class FinishSavepointOperator(StepOperator):
    """Release the compaction guard and the lock, after success and after failure. Safe to repeat."""

    takes = steps.FINISH


class BeginArchiveOperator(StepOperator):
    """Say that this run archives from now on, for so many ``seconds``: until the next one takes over."""

    takes = steps.BEGIN_ARCHIVE

    def __init__(self, *, seconds: float = HAND_OVER_SECONDS, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    def step(self, recovery: RecoveryContext, context: Context) -> archive.ArchiverTicket:
        return archive.begin(recovery, run_id_of(context), seconds=self.seconds)
