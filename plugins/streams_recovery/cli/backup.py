"""The commands that save an application: a savepoint now, and its inputs all the time."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streams_recovery.cli import look, runs
from streams_recovery.cli.approval import Approve, PlanOnly, approved, show_plan
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Mode,
    Name,
    option,
    print_json,
    recovery_of,
    requester,
)
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.archive.tick import HAND_OVER_SECONDS
from streams_recovery.core.escaping import code, md
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.survival import survives_text
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.savepoint.request import CHANGED_STATE, REASON
from streams_recovery.operations.preflight import of_store
from streams_recovery.operations.savepoint import SavepointRequest, before_savepoint

Reason = Annotated[str, option(REASON)]
Changed = Annotated[ChangedState, option(CHANGED_STATE)]


def backup(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Reason = "by hand",
    *,
    mode: Mode = None,
    changed_state: Changed = ChangedState.REFUSE,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint now. It asks only when --changed-state accepts damaged or replaced state."""
    with recovery_of(name, configs) as recovery:
        planned = _backup_plan(recovery.application_id, mode or recovery.config.quiesce_mode, changed_state)
        if plan_only:
            found = look.findings_text((*of_store(recovery), *before_savepoint(recovery, mode)))
            show_plan(planned, md("{}\n\n{}", planned.text, found), as_json=as_json)
            return
        if changed_state is not ChangedState.REFUSE or approve is not None:
            approved(planned, planned.text, approve, typed=recovery.application_id)
        run = requester()
        request = SavepointRequest(
            run_id=run.run_id,
            requested_by=run.requested_by,
            reason=reason,
            mode=mode,
            changed_state=changed_state,
            # Typed above, or approved by the hash, where something is accepted.
            confirm=recovery.application_id,
        )
        summary = runs.backup(runner(recovery, logs), request)
    if as_json:
        print_json(summary)
    else:
        line(
            f"savepoint {summary.savepoint_id}: {summary.consistency}, {summary.records:,} records, {summary.new_records:,} new; survives the "
            f"loss of the cluster: {survives_text(survives=summary.survives_cluster_loss, unsaved=recovery.config.unsaved_outputs)}"
        )


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
