"""The two ends of a run of an application that is down in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Context

from streams_recovery import increments
from streams_recovery.core.increments import parse_limit
from streams_recovery.operators.base import StepOperator, received
from streams_recovery.operators.moment import run_id_of
from streams_recovery.workbench import Workbench


class BeginIncrementOperator(StepOperator):
    """Capture where the inputs end and start the application. ``until`` is ``ends`` or ``duration:...``; empty, as configured."""

    template_fields: Sequence[str] = ("application_name", "until")

    def __init__(self, *, until: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until

    def step(self, bench: Workbench, context: Context) -> increments.Increment:
        """Begin."""
        return increments.begin(bench, parse_limit(self.until or bench.config.run.until), run_id=run_id_of(context))


class EndIncrementOperator(StepOperator):
    """Stop the application again. ``begun`` is the JSON that beginning returned."""

    template_fields: Sequence[str] = ("application_name", "begun")

    def __init__(self, *, begun: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.begun = begun

    def step(self, bench: Workbench, context: Context) -> increments.IncrementReport:
        """End."""
        return increments.end(bench, received(increments.Increment, self.begun, "the beginning of the run"))
