"""The two ends of a run of an application that is down in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.operations import scheduled_run
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.run_facts import run_id_of


class BeginIncrementOperator(StepOperator):
    """Capture where the inputs end and start the application. ``until`` is ``ends`` or ``duration:...``; empty, as configured."""

    template_fields: Sequence[str] = ("application_name", "until")

    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until

    def step(self, recovery: RecoveryContext, context: Context) -> scheduled_run.ScheduledRun:
        """Begin."""
        return scheduled_run.begin(recovery, parse_limit(self.until or recovery.config.run.until), run_id=run_id_of(context))


class EndIncrementOperator(StepOperator):
    """Stop the application again. ``begun`` is the JSON that beginning returned."""

    template_fields: Sequence[str] = ("application_name", "begun")

    def __init__(self, *, begun: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.begun = begun

    def step(self, recovery: RecoveryContext, context: Context) -> scheduled_run.ScheduledRunReport:
        """End."""
        return scheduled_run.end(recovery, received(scheduled_run.ScheduledRun, self.begun, "the beginning of the run"))
