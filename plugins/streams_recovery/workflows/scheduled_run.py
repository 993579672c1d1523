"""An application that is down between its runs: started, waited for, stopped. The waiting is a sensor's."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from streams_recovery.core.scheduled_run import ScheduledRun
from streams_recovery.operations import scheduled_run
from streams_recovery.workflows.step import Step, When, Workflow

START: Final = Step(name="start_application", call=scheduled_run.begin, result=ScheduledRun)
STOP: Final = Step(
    name="stop_application",
    call=scheduled_run.end,
    result=scheduled_run.ScheduledRunReport,
    needs=(START,),
    when=When.ALWAYS,
    retries=5,
    delay=timedelta(seconds=30),
)
SCHEDULED_RUN: Final = Workflow(opening=START, steps=(STOP,), result=STOP)
