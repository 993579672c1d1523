"""The two ends of a run of an application that is down in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery.core.scheduled_run import ScheduledRun, parse_limit
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import StepOperator
from streams_recovery.operators.run_facts import run_id_of
from streams_recovery.workflows import scheduled_run as steps


class StartRunOperator(StepOperator):
    """Capture where the inputs end and start the application. ``until`` is ``ends`` or ``duration:...``; empty, as configured."""

    takes = steps.START
    template_fields: Sequence[str] = (*StepOperator.template_fields, "until")

    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until

    def step(self, recovery: RecoveryContext, context: Context) -> ScheduledRun:
        started: ScheduledRun = self.called(recovery, parse_limit(self.until or recovery.config.run.until), run_id=run_id_of(context))
        return started


class StopRunOperator(StepOperator):
    """Stop the application again."""

    takes = steps.STOP
