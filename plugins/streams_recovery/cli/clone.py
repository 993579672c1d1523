"""The commands for a clone: make it, cut over to it, roll back, or upgrade in one go. The same steps as the DAG, in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.approval import BY_HAND
from streams_recovery.cli.context import recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.restore import carry_out, requested
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, print_json, say_command
from streams_recovery.config.loader import load_named
from streams_recovery.config.sandbox_application import clone_of
from streams_recovery.core.forms import SAVEPOINT, request_of
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.restore.request import COMPARE_KEYS, DELETE, REASON, REPLACE, SAFETY
from streams_recovery.core.rollout.cutover import RESTORE_FIRST, CutoverStep, cutover_text, upgrade_text
from streams_recovery.core.rollout.upgrade import UPGRADE_IN_PLACE
from streams_recovery.core.words import command
from streams_recovery.operations import rollout
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import FromSavepoint, UpgradeInPlace
from streams_recovery.operations.savepoint import SavepointRequest

_OF_THE_CLONE = (REPLACE, DELETE, SAFETY, COMPARE_KEYS)


@asks(SAVEPOINT, *_OF_THE_CLONE, REASON)
def clone(call: Call) -> None:
    """Give APP, a clone, the state of the application that it is a clone of, and start it beside that one."""
    carry_out(call, _restore(call))


@asks(REASON, without=("logs",))
def cut_over(call: Call) -> None:
    """Let APP, a clone that is caught up, write the real outputs, and stop the application that it is a clone of. Shows the plan and asks first."""
    _switch(call, CutoverStep.CUT_OVER)


@asks(RESTORE_FIRST, REASON, without=("logs",))
def roll_back(call: Call) -> None:
    """Stop APP, a clone, and start the application that it is a clone of where it stopped. Shows the plan and asks first."""
    _switch(call, CutoverStep.ROLL_BACK)


@asks(UPGRADE_IN_PLACE, *UpgradeInPlace.FORM, *_OF_THE_CLONE)
def upgrade(call: Call) -> None:
    """Stop the application that APP is a clone of for an exact savepoint, and start APP from it with the real outputs. With --in-place: deploy another version
    of APP, which goes on with its state, is watched, and is taken back when it fails. Shows the plan and asks first.
    """
    in_place = call.gave(UPGRADE_IN_PLACE)
    for field in _OF_THE_CLONE if in_place else (one for one in UpgradeInPlace.FORM if one is not REASON):
        if call.gave(field):
            raise typer.BadParameter(f"it is for an upgrade {'to a clone' if in_place else 'in place'}", param_hint=field.option_name)
    if in_place:
        carry_out(call, requested(call, UpgradeInPlace))
        return
    request = _restore(call)
    with _pair(call) as (old, recovery):
        planned = rollout.plan_upgrade(old, recovery)
        if not call.agreed(planned, upgrade_text(planned), typed=recovery.application_id):
            return
        run, pair = requester(), (old, recovery)
        wanted = SavepointRequest(run_id=run.run_id, requested_by=run.requested_by, reason=request.reason, mode=QuiesceMode.STOP)
        steps = runner(old, call.logs, pair), runner(recovery, call.logs, pair)
        report = runs.upgrade(*steps, wanted, lambda savepoint: replace(request, savepoint=savepoint))
    if call.as_json:
        print_json(report)
    else:
        line(f"{report.application_id} writes the outputs, from savepoint {report.savepoint_id} on")
        _say_way_back(call.name)


def _restore(call: Call) -> FromSavepoint:
    """The restore with which the clone begins, where the state of the application that it is a clone of ends."""
    original = load_named(_replaced_by(call), call.configs, os.environ)
    return replace(requested(call, FromSavepoint), source=original.application.id)


def _replaced_by(call: Call) -> str:
    return clone_of(load_named(call.name, call.configs, os.environ)).of


@contextmanager
def _pair(call: Call) -> Iterator[tuple[RecoveryContext, RecoveryContext]]:
    with recovery_of(_replaced_by(call), call.configs) as old, recovery_of(call.name, call.configs) as recovery:
        yield old, recovery


def _switch(call: Call, step: CutoverStep) -> None:
    request = request_of(rollout.CutoverRequest, call.given, step=step, reason=call.reason)
    with _pair(call) as (old, recovery):
        planned = rollout.plan_cutover(old, recovery, request)
        if not call.agreed(planned, cutover_text(planned), typed=planned.clone):
            return
        steps = runner(recovery, pair=(old, recovery), has_jobs=False)
        report = runs.cut_over(steps, request, requester(), approved_hash=planned.hash)
    if call.as_json:
        print_json(report)
        return
    line(f"{report.live} writes the outputs; the output of {report.records_again:,} input records comes twice")
    if report.step is CutoverStep.CUT_OVER:
        _say_way_back(call.name)


def _say_way_back(name: str) -> None:
    say_command("To go back:", command("roll-back", name, "--reason", BY_HAND))
