"""The commands for a clone: make it, cut over to it, roll back, or upgrade in one go. The same steps as the DAG, in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.approval import BY_HAND, Approve, PlanOnly, approved, reason_of, show_plan, without_reason
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    Savepoint,
    option,
    print_json,
    recovery_of,
    requester,
    runner,
)
from streams_recovery.cli.look import AllowDoubt, Before, Lose, Same, Topology
from streams_recovery.cli.restore import CompareKeys, Delete, Reason, Replace, Safety, carry_out, safeguards
from streams_recovery.cli.screen import line, say_command
from streams_recovery.config.loader import load_named
from streams_recovery.config.sandbox_application import clone_of
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.rollout.cutover import MAX_LAG, RESTORE_FIRST, CutoverStep, cutover_text, upgrade_text
from streams_recovery.core.rollout.upgrade import UPGRADE_IN_PLACE, WATCHED_FOR
from streams_recovery.core.words import command
from streams_recovery.operations import rollout
from streams_recovery.operations.compatibility import text_of_file
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import FromSavepoint, UpgradeInPlace
from streams_recovery.operations.savepoint import SavepointRequest

MaxLag = Annotated[int | None, option(MAX_LAG, min=0)]
RestoreFirst = Annotated[bool, option(RESTORE_FIRST)]


def clone(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    savepoint: Savepoint = "latest",
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    compare_keys: CompareKeys = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Give APP, a clone, the state of the application that it is a clone of, and start it beside that one."""
    with recovery_of(name, configs) as recovery:
        why = reason_of(reason, plan_only=plan_only)
        request = _request(recovery, configs, savepoint, why, replace=replace, delete=delete, safety=safety, compare_keys=compare_keys)
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def cut_over(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    max_lag: MaxLag = None,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Let APP, a clone that is caught up, write the real outputs, and stop the application that it is a clone of. Shows the plan and asks first."""
    request = rollout.CutoverRequest(step=CutoverStep.CUT_OVER, max_lag=max_lag, reason=reason_of(reason, plan_only=plan_only))
    _switch(name, configs, request, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def roll_back(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    restore_first: RestoreFirst = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Stop APP, a clone, and start the application that it is a clone of where it stopped. Shows the plan and asks first."""
    request = rollout.CutoverRequest(
        step=CutoverStep.ROLL_BACK, max_lag=None, reason=reason_of(reason, plan_only=plan_only), restore_first=restore_first
    )
    _switch(name, configs, request, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def upgrade(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    in_place: Annotated[bool, option(UPGRADE_IN_PLACE)] = False,
    topology: Topology = None,
    before: Before = None,
    lose: Lose = None,
    same: Same = None,
    allow_doubt: AllowDoubt = False,
    watch: Annotated[str, option(WATCHED_FOR)] = "",
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    compare_keys: CompareKeys = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Stop the application that APP is a clone of for an exact savepoint, and start APP from it with the real outputs. With --in-place: deploy another version
    of APP, which goes on with its state, is watched, and is taken back when it fails. Shows the plan and asks first.
    """
    why = reason_of(reason, plan_only=plan_only)
    given = {
        "--replace": replace,
        "--delete": bool(delete),
        "--safety": safety is not SafetyPolicy.REQUIRED,
        "--compare-keys": compare_keys,
    }
    for_place = {"--topology": topology, "--before": before, "--lose": lose, "--same": same, "--allow-doubt": allow_doubt, "--watch": watch}
    for wrong in (name for name, value in (given if in_place else for_place).items() if value):
        raise typer.BadParameter(f"it is for an upgrade {'to a clone' if in_place else 'in place'}", param_hint=wrong)
    if in_place:
        request = UpgradeInPlace(
            topology=text_of_file(topology) if topology else "",
            before=text_of_file(before) if before else "",
            lose=tuple(lose or ()),
            same=tuple(same or ()),
            allow_doubt=allow_doubt,
            watch=watch,
            reason=why,
        )
        with recovery_of(name, configs) as recovery:
            carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))
        return
    with _pair(name, configs) as (old, recovery):
        planned = rollout.plan_upgrade(old, recovery)
        if plan_only:
            show_plan(planned, upgrade_text(planned), as_json=as_json, more=without_reason(reason))
            return
        approved(planned, upgrade_text(planned), approve, typed=recovery.application_id)
        run, pair = requester(), (old, recovery)
        wanted = SavepointRequest(run_id=run.run_id, requested_by=run.requested_by, reason=why, mode=QuiesceMode.STOP)

        def restore_request(savepoint: str) -> FromSavepoint:
            return _request(recovery, configs, savepoint, why, replace=replace, delete=delete, safety=safety, compare_keys=compare_keys)

        report = runs.upgrade(runner(old, logs, pair), runner(recovery, logs, pair), wanted, restore_request)
    if as_json:
        print_json(report)
    else:
        line(f"{report.application_id} writes the outputs, from savepoint {report.savepoint_id} on")
        _say_way_back(name)


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


def _switch(
    name: str, configs: Path, request: rollout.CutoverRequest, *, plan_only: bool, approve: str | None, as_json: bool, more: Sequence[str]
) -> None:
    with _pair(name, configs) as (old, recovery):
        planned = rollout.plan_cutover(old, recovery, request)
        if plan_only:
            show_plan(planned, cutover_text(planned), as_json=as_json, more=more)
            return
        approved(planned, cutover_text(planned), approve, typed=planned.clone)
        steps = runner(recovery, pair=(old, recovery), has_jobs=False)
        report = runs.cut_over(steps, request, requester(), approved_hash=planned.hash)
    if as_json:
        print_json(report)
        return
    line(f"{report.live} writes the outputs; the output of {report.records_again:,} input records comes twice")
    if report.step is CutoverStep.CUT_OVER:
        _say_way_back(name)


def _say_way_back(name: str) -> None:
    say_command("To go back:", command("roll-back", name, "--reason", BY_HAND))
