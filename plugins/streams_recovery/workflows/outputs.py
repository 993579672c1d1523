"""Comparing the real outputs with those of a clone or of an interval. Reads only, and takes no lock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from streams_recovery.core.outputs.comparison import OutputsReport, OutputsTicket
from streams_recovery.operations import outputs
from streams_recovery.workflows.step import LONG, JobStep, Step, Workflow

_AGAIN: Final[dict[str, Any]] = {"retries": 2, "delay": timedelta(seconds=30)}

BEGIN: Final = Step(
    name="begin",
    call=outputs.begin,
    result=OutputsTicket,
    limit=LONG,
    message=lambda ticket: f"comparing {ticket.ranges} partitions with those of {ticket.other}: {'; '.join(ticket.notes)}",
    **_AGAIN,
)
COMPARE_OUTPUTS: Final = JobStep(
    name="compare_outputs", job="compare_outputs", call=outputs.plan_job, needs=(BEGIN,), locked=False, **_AGAIN
)
CONCLUDE: Final = Step(
    name="conclude", call=outputs.conclude, result=OutputsReport, needs=(BEGIN, COMPARE_OUTPUTS.file), limit=timedelta(hours=1), **_AGAIN
)
OUTPUTS: Final = Workflow(opening=BEGIN, steps=(COMPARE_OUTPUTS, CONCLUDE), result=CONCLUDE)
