"""The commands that save an application: a savepoint now, and its inputs all the time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import typer

from streams_recovery.cli import look, runs
from streams_recovery.cli.approval import BY_HAND, approved, show_plan
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, Configs, Logs, Mode, Name, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, print_json
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.archive.tick import HAND_OVER_SECONDS
from streams_recovery.core.escaping import code, md
from streams_recovery.core.forms import request_of
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.savepoint.request import REASON
from streams_recovery.operations.preflight import of_store
from streams_recovery.operations.savepoint import SavepointRequest, before_savepoint
from streams_recovery.operations.status.first_savepoint import savepoint_lines


@asks(*SavepointRequest.FORM, replace(REASON, default=BY_HAND), mode=(Mode, None))
def backup(call: Call) -> None:
    """Take a savepoint now. It asks only when --changed-state accepts damaged or replaced state."""
    run = requester()
    with recovery_of(call.name, call.configs) as recovery:
        # Typed below, or approved by the hash, where something is accepted.
        given = call.confirmed(recovery.application_id)
        request = request_of(SavepointRequest, given, run_id=run.run_id, requested_by=run.requested_by)
        planned = _backup_plan(recovery.application_id, request.mode or recovery.config.quiesce_mode, request.changed_state)
        if call.plan_only:
            found = look.findings_text((*of_store(recovery), *before_savepoint(recovery, request.mode)))
            show_plan(planned, md("{}\n\n{}", planned.text, found), as_json=call.as_json)
            return
        if request.changed_state is not ChangedState.REFUSE or call.approve is not None:
            approved(planned, planned.text, call.approve, typed=recovery.application_id)
        summary = runs.backup(runner(recovery, call.logs), request)
        lines = () if call.as_json else tuple(savepoint_lines(recovery, summary))
    if call.as_json:
        print_json(summary)
    else:
        for text in lines:
            line(text)


def _backup_plan(application_id: str, mode: QuiesceMode, changed_state: ChangedState) -> StatedPlan:
    accepted = {
        ChangedState.REFUSE: md("State that was lost or replaced outside a restore stops it."),
        ChangedState.DAMAGED: md(
            "State that was lost or replaced outside a restore is accepted: **what is left is saved, and labelled damaged**."
        ),
        ChangedState.INTENDED: md("State that was replaced outside a restore is accepted: **what is there now counts as the state**."),
    }
    return StatedPlan(
        application_id=application_id,
        text=md("Take a savepoint of {} now, and hold it meanwhile (mode {}). {}", code(application_id), mode, accepted[changed_state]),
        parts={"how the application is held (`--mode`)": mode.value, "what is accepted (`--changed-state`)": changed_state.value},
    )


def archive(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    seconds: Annotated[
        float | None, typer.Option("--for", min=1, help="Seconds after which it ends; without it, it goes on until it is stopped.")
    ] = None,
) -> None:
    """Archive inputs and globals all the time, every archive.interval, until it is stopped. After an error it begins again, and waits longer each time."""
    until = float("inf") if seconds is None else time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        # Each day anew: what has changed in the configuration counts from then on.
        with recovery_of(name, configs) as recovery:
            line(f"archiving inputs and globals of {recovery.application_id} every {recovery.config.archive.interval}")
            runs.archive(runner(recovery, logs), requester().run_id, min(HAND_OVER_SECONDS, left))
