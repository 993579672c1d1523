"""streams-recovery: savepoints and restores from a terminal.

Exit codes: 0 done, 1 unexpected, 2 configuration or usage, 3 refused, 4 not found, 5 locked by another run, 6 damaged, 7 try again later,
8 expired, but something could not be removed.
"""

from __future__ import annotations

import getpass
import sys
import uuid
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from streams_recovery import restores
from streams_recovery.cli import upkeep
from streams_recovery.cli.context import (
    DEFAULT_CONFIGS,
    DEFAULT_LOGS,
    AsJson,
    Configs,
    Logs,
    Name,
    print_json,
    runner,
    say,
    workbench,
)
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import QuiesceMode
from streams_recovery.core.plan import RestorePlan, RestoreRequest
from streams_recovery.core.plan_text import markdown, moment
from streams_recovery.savepoints import SavepointRequest
from streams_recovery.workbench import Workbench

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
savepoints_app = typer.Typer(help="What is in the repository.", no_args_is_help=True)
plan_app = typer.Typer(help="What a run would do. Changes nothing.", no_args_is_help=True)
app.add_typer(savepoints_app, name="savepoints")
app.add_typer(plan_app, name="plan")

Savepoint = Annotated[str, typer.Option("--savepoint", help="Id, or `latest` for the newest exact one.")]
AllowAhead = Annotated[bool, typer.Option("--allow-ahead", help="Accept a savepoint that may count some input twice.")]
Reason = Annotated[str, typer.Option("--reason", help="Kept with the savepoint or the report.")]


@savepoints_app.command("list")
def list_savepoints(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's savepoints, newest last."""
    with workbench(name, configs) as bench:
        found = [_read(bench, savepoint_id) for savepoint_id in bench.savepoints.ids()]
    if as_json:
        print_json([_summary(one) if isinstance(one, Manifest) else one for one in found])
        return
    table = Table("savepoint", "captured", "consistency", "records", "shares files with")
    for one in found:
        if isinstance(one, Manifest):
            table.add_row(one.savepoint_id, moment(one.captured_at), one.consistency, f"{one.records:,}", one.parent_id or "-")
        else:
            table.add_row(one["savepoint_id"], "-", "[red]damaged[/red]", "-", one["damaged"])
    Console().print(table)


def _read(bench: Workbench, savepoint_id: str) -> Manifest | dict[str, str]:
    # One that is damaged must not hide the others.
    try:
        return bench.savepoints.read(savepoint_id)
    except Damaged as error:
        return {"savepoint_id": savepoint_id, "damaged": error.reason}


def _summary(manifest: Manifest) -> dict[str, Any]:
    wanted = ("savepoint_id", "captured_at", "consistency", "parent_id", "records")
    return {name: codec.encode(getattr(manifest, name)) for name in wanted}


@savepoints_app.command("show")
def show_savepoint(name: Name, savepoint: Annotated[str, typer.Argument(metavar="ID")], configs: Configs = DEFAULT_CONFIGS) -> None:
    """Print a savepoint's whole manifest as JSON."""
    with workbench(name, configs) as bench:
        print_json(bench.savepoints.read(savepoint))


@plan_app.command("restore")
def plan_restore(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    savepoint: Savepoint = "latest",
    allow_ahead: AllowAhead = False,
    as_json: AsJson = False,
) -> None:
    """Show what a restore would do."""
    with workbench(name, configs) as bench:
        planned = restores.plan(bench, RestoreRequest(savepoint=savepoint, allow_ahead=allow_ahead, reason="plan only"))
    if as_json:
        print_json({"hash": planned.hash, **codec.encode(planned)})
    else:
        Console().print(Markdown(markdown(planned)))


@app.command()
def backup(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Reason = "by hand",
    *,
    mode: Annotated[QuiesceMode | None, typer.Option(help="How to hold the application; default as configured.")] = None,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint now."""
    request = SavepointRequest(run_id=f"cli-{uuid.uuid4().hex}", requested_by=getpass.getuser(), reason=reason, mode=mode)
    with workbench(name, configs) as bench:
        summary = runner(bench, logs).backup(request)
    if as_json:
        print_json(summary)
    else:
        Console().print(
            f"savepoint {summary.savepoint_id}: {summary.consistency}, {summary.records:,} records, {summary.new_records:,} new"
        )


@app.command()
def restore(
    name: Name,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    savepoint: Savepoint = "latest",
    allow_ahead: AllowAhead = False,
    approve: Annotated[str | None, typer.Option(help="Hash of the plan that may be carried out without asking.")] = None,
    as_json: AsJson = False,
) -> None:
    """Restore an application in place. Shows the plan and asks, unless --approve names exactly that plan."""

    def approved(planned: RestorePlan) -> bool:
        if approve is not None:
            return approve == planned.hash
        Console(stderr=True).print(Markdown(markdown(planned)))
        typed: str = typer.prompt(f"Type the application id {planned.application_id} to carry this out", err=True)
        return typed == planned.application_id

    request = RestoreRequest(savepoint=savepoint, allow_ahead=allow_ahead, reason=reason)
    with workbench(name, configs) as bench:
        report = runner(bench, logs).restore(request, run_id=f"cli-{uuid.uuid4().hex}", requested_by=getpass.getuser(), approve=approved)
    if as_json:
        print_json(report)
    else:
        Console().print(f"restored from {report.savepoint_id}: {report.rows:,} records, {report.keys_compared:,} keys compared")


app.command()(upkeep.verify)
app.command()(upkeep.expire)
app.command()(upkeep.unlock)
app.command()(upkeep.dismiss)
savepoints_app.command()(upkeep.keep)
savepoints_app.command()(upkeep.release)


def run() -> None:
    """The command's entry point: our errors become one line and their exit code."""
    try:
        app()
    except RecoveryError as error:
        say(f"{type(error).__name__}: {error}")
        sys.exit(error.exit_code)
