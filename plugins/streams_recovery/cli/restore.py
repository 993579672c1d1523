"""The commands that bring an application back."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    RestoreId,
    Savepoint,
    asked_moment,
    asked_offsets,
    option,
    print_json,
    recovery_of,
    requester,
    runner,
)
from streams_recovery.cli.screen import advice, line, say, say_command
from streams_recovery.config.loader import load_named
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import EXACT
from streams_recovery.core.restore.failover import LOST, TO
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.plan_text import markdown
from streams_recovery.core.restore.request import (
    ALLOW_AHEAD,
    ALLOW_DAMAGED,
    AS_OF,
    COMPARE_KEYS,
    DELETE,
    IN_PLACE,
    OFFSETS,
    REASON,
    REPLACE,
    SAFETY,
    Safeguards,
    SafetyPolicy,
)
from streams_recovery.core.words import command, span
from streams_recovery.operations import restore as restores
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import AsOfMoment, Failover, FromSavepoint, RestoreRequest, Undo

Source = Annotated[str, typer.Option("--source", help="Name of another application whose savepoint this one begins from: a clone.")]
_MOMENT = {one.name: one for one in AsOfMoment.FORM}
AllowAhead = Annotated[bool, option(ALLOW_AHEAD)]
AllowDamaged = Annotated[bool, option(ALLOW_DAMAGED)]
Replace = Annotated[bool, option(REPLACE)]
Delete = Annotated[list[str] | None, option(DELETE)]
Safety = Annotated[SafetyPolicy, option(SAFETY)]
Offsets = Annotated[str, option(OFFSETS)]
Moment = Annotated[str, option(AS_OF)]
By = Annotated[CutBy, option(_MOMENT["by"])]
InPlace = Annotated[bool, option(IN_PLACE)]
Groups = Annotated[list[str] | None, option(_MOMENT["groups"])]
CompareKeys = Annotated[bool, option(COMPARE_KEYS)]
Reason = Annotated[str, option(REASON)]
Site = Annotated[str, option(TO)]
Lost = Annotated[str, option(LOST)]


def restore(
    name: Name,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    source: Source = "",
    savepoint: Savepoint = "latest",
    allow_ahead: AllowAhead = False,
    allow_damaged: AllowDamaged = False,
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    offsets: Offsets = "",
    as_of: Moment = "",
    by: By = CutBy.TIMESTAMP,
    in_place: InPlace = False,
    other_group: Groups = None,
    compare_keys: CompareKeys = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Restore an application in place. Shows the plan and asks first."""
    with recovery_of(name, configs) as recovery:
        request = _request(
            recovery,
            configs,
            source=source,
            savepoint=savepoint,
            allow_ahead=allow_ahead,
            allow_damaged=allow_damaged,
            safeguards=safeguards(recovery, replace=replace, delete=delete, safety=safety),
            reason=reason_of(reason, plan_only=plan_only),
            offsets=offsets,
            as_of=as_of,
            by=by,
            in_place=in_place,
            groups=tuple(other_group or ()),
            compare_keys=compare_keys,
        )
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def failover(
    name: Name,
    to: Site,
    reason: Reason = "",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    lost: Lost = "",
    savepoint: Savepoint = "latest",
    allow_ahead: AllowAhead = False,
    allow_damaged: AllowDamaged = False,
    replace: Replace = False,
    delete: Delete = None,
    safety: Safety = SafetyPolicy.REQUIRED,
    compare_keys: CompareKeys = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Move an application to another site, with the state of a savepoint; home again with `--to primary`. Shows the plan and asks first."""
    with recovery_of(name, configs, to) as recovery:
        request = Failover(
            to=to,
            lost=lost,
            savepoint=savepoint,
            allow_ahead=allow_ahead,
            allow_damaged=allow_damaged,
            safeguards=safeguards(recovery, replace=replace, delete=delete, safety=safety),
            reason=reason_of(reason, plan_only=plan_only),
            compare_keys=compare_keys,
        )
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def undo(
    name: Name,
    reason: Reason = "",
    restore_id: RestoreId = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    delete: Delete = None,
    allow_ahead: AllowAhead = False,
    allow_damaged: AllowDamaged = False,
    compare_keys: CompareKeys = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Bring back what was there before a restore, from its safety savepoint. What is there now is saved first in its turn."""
    with recovery_of(name, configs) as recovery:
        request = Undo(
            restore_id=restore_id,
            allow_ahead=allow_ahead,
            allow_damaged=allow_damaged,
            safeguards=safeguards(recovery, replace=Undo.REPLACES, delete=delete, safety=SafetyPolicy.REQUIRED),
            reason=reason_of(reason, plan_only=plan_only),
            compare_keys=compare_keys,
        )
        carry_out(recovery, request, logs, plan_only=plan_only, approve=approve, as_json=as_json, more=without_reason(reason))


def resume(
    name: Name,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="Id of a restore that failed half way, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take the lock from the run that failed, although nobody can prove from here that it is dead. Make sure that it is.",
        ),
    ] = False,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a restore that failed after it had begun to replace topics. Shows its plan and asks first."""
    with recovery_of(name, configs) as recovery:
        if plan_only:
            planned = restores.plan_left(recovery, restores.unfinished_one(recovery, restore_id))
            show_plan(planned, markdown(planned), as_json=as_json)
            return
        report = runs.resume(
            runner(recovery, logs), restore_id, requester(), take_over=take_over, approve=lambda planned: _approved(planned, approve)
        )
        _tell(recovery, report, as_json=as_json)


def safeguards(recovery: RecoveryContext, *, replace: bool, delete: list[str] | None, safety: SafetyPolicy) -> Safeguards:
    """The safeguards that the options ask for. They count as confirmed: the plan is shown with all of them, and the application id typed below it, or its hash
    given.
    """
    return Safeguards(replace=replace, delete=tuple(delete or ()), safety=safety, confirm=recovery.application_id)


def _request(
    recovery: RecoveryContext,
    configs: Path,
    *,
    reason: str,
    source: str,
    savepoint: str,
    allow_ahead: bool,
    allow_damaged: bool,
    safeguards: Safeguards,
    offsets: str,
    as_of: str,
    by: CutBy,
    in_place: bool,
    groups: tuple[str, ...],
    compare_keys: bool,
) -> FromSavepoint | AsOfMoment:
    application_id = load_named(source, configs, os.environ).application.id if source else ""
    if not as_of:
        _refuse_without_moment({"--in-place": in_place, "--other-group": bool(groups)})
        return FromSavepoint(
            source=application_id,
            savepoint=savepoint,
            allow_ahead=allow_ahead,
            allow_damaged=allow_damaged,
            safeguards=safeguards,
            reason=reason,
            offsets=asked_offsets(recovery, configs, offsets),
            compare_keys=compare_keys,
        )
    if offsets not in ("", EXACT.text):
        raise typer.BadParameter("an application that is brought to a moment goes on where its state ends", param_hint="--offsets")
    return AsOfMoment(
        as_of=asked_moment(recovery, as_of, by),
        source=application_id,
        savepoint=savepoint,
        allow_ahead=allow_ahead,
        in_place=in_place,
        groups=groups,
        safeguards=safeguards,
        reason=reason,
        compare_keys=compare_keys,
    )


def _refuse_without_moment(given: dict[str, bool]) -> None:
    for name, is_given in given.items():
        if is_given:
            raise typer.BadParameter("inputs are cut in place only at a moment: name one with --as-of", param_hint=name)


def carry_out(
    recovery: RecoveryContext,
    request: RestoreRequest,
    logs: Path,
    *,
    plan_only: bool,
    approve: str | None,
    as_json: bool,
    more: Sequence[str] = (),
) -> None:
    """Plan; show the plan, or ask unless ``approve`` is its hash, and do it. ``more`` are options that carrying it out needs and a plan does not."""
    if plan_only:
        planned = restores.plan(recovery, request)
        show_plan(planned, markdown(planned), as_json=as_json, more=more)
        return
    request = restores.as_approved(request, approve)
    report = runs.restore_in_place(runner(recovery, logs), request, requester(), approve=lambda planned: _approved(planned, approve))
    _tell(recovery, report, as_json=as_json)


def _approved(planned: RestorePlan, approve: str | None) -> bool:
    return approved(planned, markdown(planned), approve, typed=planned.application_id)


def _tell(recovery: RecoveryContext, report: restores.RestoreReport, *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    _say_verdict(recovery, report)
    for one in report.expiring:
        say(f"Not to stay: {one}. Raise retention.ms where it is to stay.")
    if report.still_held:
        say(f"Retention is not put back yet, restored records would expire: {', '.join(report.still_held)}")


def _say_verdict(recovery: RecoveryContext, report: restores.RestoreReport) -> None:
    name = recovery.config.name
    if report.single is not None:
        names, equal = ", ".join(report.single.names), f"{report.rows:,} records compared, all equal"
        line(f"{names} brought back from {report.savepoint_id}: {equal}; {report.offsets} offsets set")
    elif report.move is not None:
        line(
            f"moved from {report.move.before} to {report.move.to} with savepoint {report.savepoint_id}: {report.rows:,} records compared, all equal"
        )
        say_command("To go home:", command("failover", name, "--to", report.move.before, "--reason", BY_HAND))
        return
    elif report.upgrade is not None and report.watched is not None:
        line(
            f"upgraded: {report.upgrade.verdict}; watched for {span(report.watched.seconds)}, and {report.watched.behind:,} input records are left"
        )
    elif report.savepoint_id is None:
        line(f"rebuilt from the input: {report.offsets} offsets set, and the input processed up to its end")
    else:
        line(f"restored from {report.savepoint_id}: {report.rows:,} records compared, all equal")
    if report.safety_savepoint:
        refused = restores.undo_refused(recovery, report.restore_id)
        if refused is None:
            say_command("To go back:", command("undo", name, report.restore_id, "--reason", BY_HAND))
        else:
            say(
                f"What was there before is saved, and an undo of this restore is refused: {refused.reason}. Next: {advice(refused.next_step)}"
            )
