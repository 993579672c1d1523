"""The command that plays what runs an application, and says what was answered wrongly."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli.context import new_run_id, recovery_of
from streams_recovery.cli.form import Call, asks
from streams_recovery.cli.screen import line, print_json, say, table
from streams_recovery.core import codec
from streams_recovery.core.approval import StatedPlan
from streams_recovery.core.escaping import code, md
from streams_recovery.operations.check_runs import RunsCheck, check_dry, check_real


@asks(without=("logs",))
def check_runs(
    call: Call,
    *,
    for_real: Annotated[bool, typer.Option("--for-real", help="Pause and resume, stop and start the application. It asks first.")] = False,
    wipe: Annotated[
        bool,
        typer.Option(
            "--wipe", help="With --for-real: remove its local state too, while it is stopped. It is read again from its changelogs."
        ),
    ] = False,
) -> None:
    """Play what runs an application, and say field by field what was answered wrongly. Changes nothing without --for-real."""
    if wipe and not for_real:
        raise typer.BadParameter("--wipe is for --for-real")
    with recovery_of(call.name, call.configs) as recovery:
        if for_real:
            planned = _plan(recovery.application_id, wipe=wipe)
            if not call.agreed(planned, planned.text, typed=recovery.application_id):
                return
            found = check_real(recovery, new_run_id(), wipe=wipe)
        else:
            found = check_dry(recovery)
    _tell(found, as_json=call.as_json)
    raise typer.Exit(found.exit_code)


def _plan(application_id: str, *, wipe: bool) -> StatedPlan:
    does = "Pause and resume, then stop and start" if not wipe else "Pause and resume, then stop, **wipe** and start"
    return StatedPlan(
        application_id=application_id,
        text=md(
            "{} {} now, under its lock. It processes nothing meanwhile, and is brought back whatever is answered.",
            does,
            code(application_id),
        ),
        parts={"the local state": "removed" if wipe else "kept"},
    )


def _tell(found: RunsCheck, *, as_json: bool) -> None:
    if as_json:
        print_json({"good": found.exit_code == 0, "exit_code": found.exit_code, **codec.encode(found)})
        return
    rows = [(one.verb, "right" if one.good else "WRONG", f"{one.seconds:.1f} s", one.did or one.error) for one in found.played]
    rows += [(verb, "not tried", "", why) for verb, why in found.not_tried.items()]
    table(("verb", "answer", "took", "what was seen"), rows, folded=("what was seen",), bad=("WRONG",))
    for one in found.played:
        for wrong in one.wrong:
            say(f"{one.verb}: {wrong}")
    wrong_ones = sum(not one.good for one in found.played)
    line(
        f"{found.application_id}: {len(found.played) - wrong_ones} of {len(found.played)} answers are right, {len(found.not_tried)} verbs were not tried"
    )
