"""The commands for drills: one now, and the history of all."""

from __future__ import annotations

import getpass
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, print_json, recovery_of, runner, say
from streams_recovery.cli.restore_steps import carry_out, removed
from streams_recovery.config.drill_application import DRILL
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.restore.plan import RestoreRequest
from streams_recovery.core.sandbox.drill import DrillEntry
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations import restore
from streams_recovery.operations import sandbox as trials
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.chosen_savepoint import pinned

Savepoint = Annotated[str, typer.Option("--savepoint", help="Id; `latest` for the newest exact one.")]


def drill(
    name: Name, configs: Configs = DEFAULT_CONFIGS, logs: Logs = DEFAULT_LOGS, *, savepoint: Savepoint = "latest", as_json: AsJson = False
) -> None:
    """Try a restore into an application of its own, measure it, and remove it again. Touches nothing that lives, so it does not ask."""
    run_id = f"cli-{uuid.uuid4().hex}"
    with recovery_of(name, configs) as recovery, recovery_of(f"{name}{DRILL}", configs) as scratch:
        tried = _tried(recovery, scratch, logs, run_id=run_id, savepoint=savepoint)
        entry = trials.conclude(
            recovery,
            run_id=run_id,
            requested_by=getpass.getuser(),
            began_at=tried.began_at,
            ticket=tried.ticket,
            report=tried.report,
            left=tried.left,
        )
    if as_json:
        print_json(entry)
    else:
        Console().print(f"drill {entry.outcome}: RPO {_of(entry.rpo_seconds)}, RTO {_of(entry.rto_seconds)}")
    if tried.failure is not None:
        raise tried.failure
    trials.raise_unless_succeeded(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """When it began, the ticket if a restore was begun, its report if it was finished, what is left of it, and why it failed."""

    began_at: int
    ticket: restore.RestoreTicket | None
    report: restore.RestoreReport | None
    left: tuple[str, ...]
    failure: RecoveryError | None


def _tried(recovery: RecoveryContext, scratch: RecoveryContext, logs: Path, *, run_id: str, savepoint: str) -> _Tried:
    ticket: restore.RestoreTicket | None = None
    report: restore.RestoreReport | None = None
    left: tuple[str, ...] = ()
    failure: RecoveryError | None = None
    began_at = recovery.clock()
    try:
        trials.clear(scratch, run_id=run_id)
        began_at = recovery.clock()
        request = RestoreRequest(source=recovery.application_id, savepoint=savepoint, reason="drill")
        planned = restore.plan(scratch, request)
        request = pinned(scratch, request, planned)
        ticket = restore.open_restore(scratch, request, run_id=run_id, requested_by=getpass.getuser(), approved_hash=planned.hash)
        report = carry_out(scratch, ticket, runner(scratch, logs).job, say)
    except RecoveryError as error:
        failure = error
    finally:
        if ticket is not None:
            left = removed(trials.remove, scratch, ticket, say)
    return _Tried(began_at=began_at, ticket=ticket, report=report, left=left, failure=failure)


def drills(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List an application's drills with what they measured, newest last."""
    with recovery_of(name, configs) as recovery:
        found = trials.drills(recovery)
    if as_json:
        print_json(found)
        return
    table = Table("began", "savepoint", "outcome", "RPO", "RTO", "records compared", "restore")
    for entry in found:
        table.add_row(*_row(entry))
    Console().print(table)


def _row(entry: DrillEntry) -> tuple[str, ...]:
    return (
        moment(entry.began_at),
        entry.savepoint_id or "-",
        entry.outcome,
        _of(entry.rpo_seconds),
        _of(entry.rto_seconds),
        f"{entry.rows:,}",
        entry.restore_id or "-",
    )


def _of(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.1f} s"
