"""The commands for a clone: make it, cut over to it, roll back, or upgrade in one go. The same steps as the DAG, in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from streams_recovery.cli import runs
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    print_json,
    recovery_of,
    requester,
    runner,
)
from streams_recovery.cli.restore import Approve, CompareKeys, Delete, Reason, Replace, Safety, Savepoint, carry_out, safeguards
from streams_recovery.config.clone_application import clone_of
from streams_recovery.config.loader import load_named
from streams_recovery.core import codec
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.restore.request import FromSavepoint, SafetyPolicy
from streams_recovery.core.rollout.cutover import CutoverPlan, Step
from streams_recovery.core.text.cutover import cutover_text, upgrade_text
from streams_recovery.operations import rollout
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import SavepointRequest

MaxLag = Annotated[int | None, typer.Option("--max-lag", min=0, help="Records the clone may be behind its input; default as configured.")]
RestoreFirst = Annotated[
    bool,
    typer.Option("--restore-first", help="Leave the old application down: its offsets or its input are gone, so it has to be restored."),
]


def clone(
    name: Name,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    savepoint: Savepoint = "latest",
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    compare_keys: CompareKeys = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Give APP, a clone, the state of the application that it is a clone of, and start it beside that one."""
    with recovery_of(name, configs) as recovery:
        request = _request(recovery, configs, savepoint, reason, replace=replace, delete=delete, safety=safety, compare_keys=compare_keys)
        carry_out(recovery, request, logs, approve=approve, as_json=as_json)


def plan_cut_over(name: Name, configs: Configs = DEFAULT_CONFIGS, *, max_lag: MaxLag = None, as_json: AsJson = False) -> None:
    """Show what a cut-over would do, and how much output would come twice."""
    _show(name, configs, rollout.CutoverRequest(step=Step.CUT_OVER, max_lag=max_lag, reason=""), as_json=as_json)


def plan_roll_back(name: Name, configs: Configs = DEFAULT_CONFIGS, *, restore_first: RestoreFirst = False, as_json: AsJson = False) -> None:
    """Show what a way back would do, and how much output would come twice."""
    request = rollout.CutoverRequest(step=Step.ROLL_BACK, max_lag=None, reason="", restore_first=restore_first)
    _show(name, configs, request, as_json=as_json)


def _show(name: str, configs: Path, request: rollout.CutoverRequest, *, as_json: bool) -> None:
    with _pair(name, configs) as (old, recovery):
        planned = rollout.plan_cutover(old, recovery, request)
    if as_json:
        print_json({"hash": planned.hash, **codec.encode(planned)})
    else:
        Console().print(Markdown(cutover_text(planned)))


def cut_over(
    name: Name,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    max_lag: MaxLag = None,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Let APP, a clone that is caught up, write the real outputs, and stop the application that it is a clone of. Shows the plan and asks first."""
    request = rollout.CutoverRequest(step=Step.CUT_OVER, max_lag=max_lag, reason=reason)
    _switch(name, configs, request, approve=approve, as_json=as_json)


def roll_back(
    name: Name,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    restore_first: RestoreFirst = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Stop APP, a clone, and start the application that it is a clone of where it stopped. Shows the plan and asks first."""
    request = rollout.CutoverRequest(step=Step.ROLL_BACK, max_lag=None, reason=reason, restore_first=restore_first)
    _switch(name, configs, request, approve=approve, as_json=as_json)


def upgrade(
    name: Name,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    compare_keys: CompareKeys = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Stop the application that APP is a clone of for an exact savepoint, and start APP from it with the real outputs. Shows the plan and asks first."""
    with _pair(name, configs) as (old, recovery):
        text = upgrade_text(rollout.plan_upgrade(old, recovery))
        if not yes:
            _ask(text, recovery.application_id)
        run, pair = requester(), (old, recovery)
        wanted = SavepointRequest(run_id=run.run_id, requested_by=run.requested_by, reason=reason, mode=QuiesceMode.STOP)

        def restore_request(savepoint: str) -> FromSavepoint:
            return _request(recovery, configs, savepoint, reason, replace=replace, delete=delete, safety=safety, compare_keys=compare_keys)

        report = runs.upgrade(runner(old, logs, pair), runner(recovery, logs, pair), wanted, restore_request)
    if as_json:
        print_json(report)
    else:
        Console().print(f"{report.application_id} writes the outputs, from savepoint {report.savepoint_id} on; {_way_back(name)}")


def _request(
    recovery: RecoveryContext,
    configs: Path,
    savepoint: str,
    reason: str,
    *,
    replace: bool,
    delete: list[str] | None,
    safety: SafetyPolicy,
    compare_keys: bool,
) -> FromSavepoint:
    return FromSavepoint(
        source=load_named(_replaced_by(recovery.config.name, configs), configs, os.environ).application.id,
        savepoint=savepoint,
        safeguards=safeguards(recovery, replace=replace, delete=delete, safety=safety),
        reason=reason,
        compare_keys=compare_keys,
    )


def _replaced_by(name: str, configs: Path) -> str:
    return clone_of(load_named(name, configs, os.environ)).of


@contextmanager
def _pair(name: str, configs: Path) -> Iterator[tuple[RecoveryContext, RecoveryContext]]:
    with recovery_of(_replaced_by(name, configs), configs) as old, recovery_of(name, configs) as recovery:
        yield old, recovery


def _switch(name: str, configs: Path, request: rollout.CutoverRequest, *, approve: str | None, as_json: bool) -> None:
    with _pair(name, configs) as (old, recovery):
        planned = rollout.plan_cutover(old, recovery, request)
        _check_approved(planned, approve)
        steps = runner(recovery, pair=(old, recovery))
        report = runs.cut_over(steps, request, requester(), approved_hash=planned.hash)
    if as_json:
        print_json(report)
        return
    Console().print(f"{report.live} writes the outputs; the output of {report.records_again:,} input records comes twice")
    if report.step is Step.CUT_OVER:
        Console().print(_way_back(name))


def _check_approved(planned: CutoverPlan, approve: str | None) -> None:
    if approve is None:
        _ask(cutover_text(planned), planned.clone)
    elif approve != planned.hash:
        raise Refused("the plan was not approved", next_step="nothing was changed; both applications go on as they were")


def _ask(text: str, application_id: str) -> None:
    Console(stderr=True).print(Markdown(text))
    if typer.prompt(f"Type the application id {application_id} to carry this out", err=True) != application_id:
        raise Refused("the plan was not approved", next_step="nothing was changed; both applications go on as they were")


def _way_back(name: str) -> str:
    return f"to go back: streams-recovery roll-back {name}"
