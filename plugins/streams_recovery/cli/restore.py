"""The commands that bring an application back."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.advice import advice
from streams_recovery.cli.approval import BY_HAND, approved, show_plan
from streams_recovery.cli.context import FromPlace, RestoreId, option, recovery_of, requester
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.runner import runner
from streams_recovery.cli.screen import line, print_json, say, say_command
from streams_recovery.config.loader import load_named
from streams_recovery.config.offsets import anywhere, inside
from streams_recovery.core.offsets.strategies import EXACT
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.rescale.numbers import PARTITIONS, PLACED_BY
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.request import AS_OF, GROUPS, IN_PLACE, OFFSETS, REASON
from streams_recovery.core.words import LATEST, command
from streams_recovery.operations import restore as restores
from streams_recovery.operations.compatibility import text_of_file
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.strategies import AsOfMoment, Failover, FromSavepoint, Rescale, RestoreRequest, Undo
from streams_recovery.operations.restore.strategies.requested import RequestReader, S


@asks(*FromSavepoint.FORM, *AsOfMoment.FORM)
def restore(call: Call, *, place: FromPlace = None) -> None:
    """Restore an application in place. Shows the plan and asks first."""
    if call.gave(AS_OF):
        if call.given[OFFSETS.name] not in ("", EXACT.text):
            raise typer.BadParameter(
                "an application that is brought to a moment goes on where its state ends", param_hint=OFFSETS.option_name
            )
        carry_out(call, requested(call, AsOfMoment), place)
        return
    for field in (IN_PLACE, GROUPS):
        if call.gave(field):
            raise typer.BadParameter("inputs are cut in place only at a moment: name one with --as-of", param_hint=field.option_name)
    carry_out(call, requested(call, FromSavepoint), place)


@asks(*Failover.FORM)
def failover(call: Call) -> None:
    """Move an application to another site, with the state of a savepoint; home again with `--to primary`. Shows the plan and asks first."""
    carry_out(call, requested(call, Failover))


@asks(
    *Rescale.FORM,
    partitions=(Annotated[list[str], option(PARTITIONS)], inspect.Parameter.empty),
    placed_by=(Annotated[list[str] | None, option(PLACED_BY)], None),
)
def rescale(call: Call) -> None:
    """Give topics other numbers of partitions, with all state and unread input; grow or shrink. Shows the plan and asks first."""
    given = {**call.given, **{one.name: " ".join(call.given[one.name] or ()) for one in (PARTITIONS, PLACED_BY)}}
    carry_out(call, requested(replace(call, given=given), Rescale))


@asks(*Undo.FORM, restore=(RestoreId, LATEST))
def undo(call: Call, *, place: FromPlace = None) -> None:
    """Bring back what was there before a restore, from its safety savepoint. What is there now is saved first in its turn."""
    carry_out(call, requested(call, Undo), place)


@asks()
def resume(
    call: Call,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="Id of a restore that failed half way, or `latest`.")] = LATEST,
    *,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take the lock from the run that failed, although nobody can prove from here that it is dead. Make sure that it is.",
        ),
    ] = False,
    place: FromPlace = None,
) -> None:
    """Go on with a restore that failed after it had begun to replace topics. Shows its plan and asks first."""
    with recovery_of(call.name, call.configs, place=place) as recovery:
        if call.plan_only:
            planned = restores.plan_left(recovery, restores.unfinished_one(recovery, restore_id))
            show_plan(planned, planned.text, as_json=call.as_json)
            return
        report = runs.resume(
            runner(recovery, call.logs),
            restore_id,
            requester(),
            take_over=take_over,
            approve=lambda planned: _approved(planned, call.approve),
        )
        _tell(recovery, report, as_json=call.as_json)


def requested(call: Call, strategy: type[S]) -> S:
    """The request for a restore by this strategy. Raises ``BadParameter`` without a reason, and ``ConfigInvalid`` for what names nothing."""
    config = load_named(call.name, call.configs, os.environ)
    reader = RequestReader(
        config=config,
        application=lambda name: load_named(name, call.configs, os.environ),
        # A configuration names files beside it, a person at a terminal any.
        read=anywhere if call.given.get(OFFSETS.name) else inside(call.configs),
    )
    documents = {name: text_of_file(value) for name, value in call.given.items() if isinstance(value, Path)}
    return reader.request(strategy, call.confirmed(config.application.id) | documents | {REASON.name: call.reason})


def carry_out(call: Call, request: RestoreRequest, place: Where | None = None) -> None:
    """Plan; show the plan, or ask unless it is approved by its hash, and do it. From another ``place`` only where the first one is lost."""
    with recovery_of(call.name, call.configs, request.site, place=place) as recovery:
        if call.plan_only:
            planned = restores.plan(recovery, request)
            show_plan(planned, planned.text, as_json=call.as_json, more=call.more)
            return
        request = restores.as_approved(request, call.approve)
        report = runs.restore_in_place(
            runner(recovery, call.logs), request, requester(), approve=lambda planned: _approved(planned, call.approve)
        )
        _tell(recovery, report, as_json=call.as_json)


def _approved(planned: RestorePlan, approve: str | None) -> bool:
    return approved(planned, planned.text, approve, typed=planned.application_id)


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
    line(report.part.outcome(report))
    if home := report.part.way_home(name):
        say_command("To go home:", command(*home, "--reason", BY_HAND))
    elif report.safety_savepoint:
        refused = restores.undo_refused(recovery, report.restore_id)
        if refused is None:
            say_command("To go back:", command("undo", name, report.restore_id, "--reason", BY_HAND))
        else:
            say(
                f"What was there before is saved, and an undo of this restore is refused: {refused.reason}. Next: {advice(refused.next_step)}"
            )
