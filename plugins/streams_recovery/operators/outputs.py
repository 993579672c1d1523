"""The tasks that compare the real outputs with those of a clone or of an interval. The Spark job is in spark.py."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from airflow.sdk import Context

from streams_recovery.core.forms import request_of
from streams_recovery.core.outputs.comparison import Against, OutputsOptions, OutputsReport, OutputsTicket, outputs_request, shown
from streams_recovery.core.state.inspection import inspection_lines
from streams_recovery.hooks.context import context_of
from streams_recovery.operations import outputs
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operators.base import ParamsOperator, StepOperator, original_of, requested_by, run_id_of
from streams_recovery.workflows import maintenance as steps


class BeginOutputsOperator(ParamsOperator):
    """Find what is to be compared, from where to where, and leave the job its specification. Waits until the applications have processed the input that there
    is.
    """

    takes = steps.BEGIN

    def step(self, recovery: RecoveryContext, context: Context) -> OutputsTicket:
        options = request_of(OutputsOptions, self.params_of_run())
        request = outputs_request(options, run_id=run_id_of(context), requested_by=requested_by(context))
        clone = outputs.against(recovery, request) is Against.CLONE
        with context_of(original_of(self.application_name)) if clone else nullcontext() as original:
            ticket: OutputsTicket = self.called(recovery, original, request)
        return ticket


class ConcludeOutputsOperator(StepOperator):
    """Keep the report, and log all of it. Keys and values stay out of XCom."""

    takes = steps.CONCLUDE

    def step(self, recovery: RecoveryContext, context: Context) -> dict[str, Any]:
        report: OutputsReport = self.called(recovery)
        for text in inspection_lines(shown(report, values=True)):
            self.log.info("%s", text)
        return {
            "outcome": report.outcome.value,
            "against": report.against.value,
            "other": report.other,
            "outputs": {one.output: one.counts for one in report.outputs},
        }
