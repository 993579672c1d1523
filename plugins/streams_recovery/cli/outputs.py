"""The command that compares the real outputs with those of a clone or of an interval."""

from __future__ import annotations

from contextlib import ExitStack

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.context import recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, print_json, say
from streams_recovery.cli.screen import table as print_table
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED
from streams_recovery.config.sandbox_application import clone_of
from streams_recovery.core.forms import request_of
from streams_recovery.core.outputs.comparison import Against, OutputsOptions, outputs_request, shown
from streams_recovery.core.state.inspection import Outcome
from streams_recovery.operations import outputs


@asks(*OutputsOptions.FORM, without=("plan_only", "approve"))
def compare_outputs(call: Call) -> None:
    """Compare the real outputs with those of APP, a clone, or with the results of an interval of APP, key by key. Exit code 0 when they are equal, 9 when not,
    10 when nothing of them, or of one of them, was compared.
    """
    run = requester()
    request = outputs_request(request_of(OutputsOptions, call.given), run_id=run.run_id, requested_by=run.requested_by)
    with ExitStack() as stack:
        recovery = stack.enter_context(recovery_of(call.name, call.configs))
        original = None
        if outputs.against(recovery, request) is Against.CLONE:
            original = stack.enter_context(recovery_of(clone_of(recovery.config).of, call.configs))
        report = runs.compare_outputs(runner(recovery, call.logs), original, request)
    if call.as_json:
        print_json(report)
    else:
        found = shown(report, values=True)
        line(f"{found.question}: {found.outcome.value}")
        for sentence in found.sentences:
            say(sentence)
        if found.found.rows:
            print_table(found.found.columns, found.found.rows, folded=found.found.columns)
            if found.found.more:
                say(f"{found.found.more:,} more are not shown")
    if report.outcome in (Outcome.NOTHING_COMPARED, Outcome.PARTLY):
        raise typer.Exit(NOTHING_COMPARED)
    if report.outcome is not Outcome.EQUAL:
        raise typer.Exit(DIFFERENT)
