"""streams-recovery: savepoints and restores from a terminal.

Exit codes: 0 done, 1 unexpected, 2 configuration or usage, 3 refused, 4 not found, 5 locked by another run, 6 damaged, 7 try again later,
8 expired, but something could not be removed; 9 different, 10 nothing to compare; 20 to 28 what `verify` found.
"""

from __future__ import annotations

import getpass
import sys
import uuid
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streams_recovery.cli import append, clone, drill, maintenance, preflight, rebuild, reprocess, restore, runs, state
from streams_recovery.cli.compact import compact
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    print_json,
    recovery_of,
    runner,
    say,
)
from streams_recovery.cli.offsets import offsets_app
from streams_recovery.cli.report import evidence
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations.savepoint import SavepointRequest

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
savepoints_app = typer.Typer(help="What is in the repository.", no_args_is_help=True)
plan_app = typer.Typer(help="What a run would do. Changes nothing.", no_args_is_help=True)
app.add_typer(savepoints_app, name="savepoints")
app.add_typer(plan_app, name="plan")
app.add_typer(offsets_app, name="offsets")

Reason = Annotated[str, typer.Option("--reason", help="Kept with the savepoint.")]


@savepoints_app.command("list")
def list_savepoints(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's savepoints, newest last."""
    with recovery_of(name, configs) as recovery:
        found = recovery.savepoints.summaries()
    if as_json:
        print_json([_summary(savepoint_id, one) for savepoint_id, one in found.items()])
        return
    table = Table("savepoint", "captured", "consistency", "profile", "survives cluster loss", "records", "shares files with")
    for savepoint_id, one in found.items():
        if isinstance(one, Publication):
            records = f"{one.records:,}{', compacted' if one.replaces else ''}"
            survives = "yes" if one.survives_cluster_loss else "no"
            table.add_row(one.savepoint_id, moment(one.captured_at), one.consistency, one.profile, survives, records, one.parent_id or "-")
        else:
            table.add_row(savepoint_id, "-", "[red]damaged[/red]", "-", "no", "-", one.reason)
    Console().print(table)


def _summary(savepoint_id: str, found: Publication | Damaged) -> dict[str, Any]:
    # One that is damaged must not hide the others.
    if isinstance(found, Damaged):
        return {"savepoint_id": savepoint_id, "damaged": found.reason, "survives_cluster_loss": False}
    wanted = (
        "savepoint_id",
        "captured_at",
        "consistency",
        "profile",
        "parent_id",
        "replaces",
        "records",
        "survives_cluster_loss",
        "lost_with_cluster",
    )
    return {name: codec.encode(getattr(found, name)) for name in wanted}


@savepoints_app.command("show")
def show_savepoint(name: Name, savepoint: Annotated[str, typer.Argument(metavar="ID")], configs: Configs = DEFAULT_CONFIGS) -> None:
    """Print a savepoint's manifest as JSON."""
    with recovery_of(name, configs) as recovery:
        print_json(recovery.savepoints.outline(savepoint))


@app.command()
def backup(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Reason = "by hand",
    *,
    mode: Annotated[QuiesceMode | None, typer.Option(help="How to hold the application; default as configured.")] = None,
    changed_state: Annotated[
        ChangedState, typer.Option(help="What to do when state was lost or replaced outside a restore. All but refuse need --confirm.")
    ] = ChangedState.REFUSE,
    confirm: Annotated[str, typer.Option(help="The application id, typed.")] = "",
    as_json: AsJson = False,
) -> None:
    """Take a savepoint now."""
    request = SavepointRequest(
        run_id=f"cli-{uuid.uuid4().hex}",
        requested_by=getpass.getuser(),
        reason=reason,
        mode=mode,
        changed_state=changed_state,
        confirm=confirm,
    )
    with recovery_of(name, configs) as recovery:
        summary = runs.backup(runner(recovery, logs), request)
    if as_json:
        print_json(summary)
    else:
        Console().print(
            f"savepoint {summary.savepoint_id}: {summary.consistency}, {summary.records:,} records, {summary.new_records:,} new; it "
            f"{'survives' if summary.survives_cluster_loss else 'does not survive'} the loss of the cluster"
        )


plan_app.command("restore")(restore.plan_restore)
plan_app.command("rebuild")(rebuild.plan_rebuild)
plan_app.command("cut-over")(clone.plan_cut_over)
plan_app.command("roll-back")(clone.plan_roll_back)
app.command()(restore.restore)
app.command()(rebuild.rebuild)
app.command()(restore.undo)
app.command()(restore.resume)
app.command("append-quarantine")(append.append_quarantine)
app.command()(clone.clone)
app.command("cut-over")(clone.cut_over)
app.command("roll-back")(clone.roll_back)
app.command()(clone.upgrade)
app.command()(compact)
app.command()(state.state)
app.command("state-diff")(state.state_diff)
app.command("state-write")(state.state_write)
app.command()(drill.drill)
app.command()(drill.drills)
app.command()(reprocess.reprocess)
app.command()(reprocess.reprocessed)
app.command()(evidence)
app.command()(preflight.preflight)
app.command()(maintenance.verify)
app.command()(maintenance.expire)
app.command()(maintenance.undelete)
app.command()(maintenance.unlock)
app.command()(maintenance.dismiss)
savepoints_app.command()(maintenance.keep)
savepoints_app.command()(maintenance.release)


def run() -> None:
    """The command's entry point: our errors become one line and their exit code."""
    try:
        app()
    except RecoveryError as error:
        say(f"{type(error).__name__}: {error}")
        sys.exit(error.exit_code)
