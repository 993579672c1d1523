"""The commands for reprocessing: one interval now, and the history of all."""

from __future__ import annotations

import getpass
import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, print_json, recovery_of, runner, say
from streams_recovery.cli.restore_steps import carry_out, removed
from streams_recovery.core.errors import RecoveryError, Refused
from streams_recovery.core.sandbox.interval_log import Asked, Base, ReprocessEntry, written_interval
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.text.restore_plan import moment
from streams_recovery.operations import interval as again
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.interval import Claimed, Planned

From = Annotated[str, typer.Option("--from", help="The interval's start, with its time zone, such as 2026-11-21T12:00:00Z.")]
To = Annotated[str, typer.Option("--to", help="Its end, which is not part of it.")]
Lateness = Annotated[str, typer.Option("--lateness", help="How much later a record may have come, such as PT1H; default as configured.")]
Overlap = Annotated[str, typer.Option("--overlap", help="Input before the interval that fills windows and joins.")]
Beyond = Annotated[str, typer.Option("--beyond", help="Input behind it that closes windows.")]
Start = Annotated[Base | None, typer.Option("--base", help="The state to begin from; default as configured.")]
How = Annotated[PublishPolicy, typer.Option("--hand-over", help="Leave results in topics of their own, or put them into the outputs.")]
Tombstones = Annotated[bool, typer.Option("--tombstones", help="With replace: delete keys whose result did not come again.")]
Confirm = Annotated[str, typer.Option("--confirm", help="With replace: the application id.")]
Reason = Annotated[str, typer.Option("--reason", help="Kept with the entry.")]


def reprocess(
    name: Name,
    begin: From,
    end: To,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    lateness: Lateness = "",
    overlap: Overlap = "",
    beyond: Beyond = "",
    base: Start = None,
    hand_over: How = PublishPolicy.SIDE_BY_SIDE,
    confirm: Confirm = "",
    reason: Reason = "",
    tombstones: Tombstones = False,
    as_json: AsJson = False,
) -> None:
    """Process an interval of the past again, in an application of its own that is removed afterwards."""
    asked = Asked(
        lateness=lateness,
        overlap=overlap,
        beyond=beyond,
        base=base or "",
        hand_over=hand_over,
        tombstones=tombstones,
        confirm=confirm,
        reason=reason,
    )
    run_id, interval = f"cli-{uuid.uuid4().hex}", written_interval(begin, end)
    with recovery_of(name, configs) as recovery:
        claimed = again.claim(recovery, again.requested(recovery, asked, interval), run_id=run_id)
        if claimed is None:
            raise Refused(
                f"all lanes are taken, by the intervals {', '.join(again.busy(recovery))}",
                next_step="wait until one of them has ended; one that died keeps its lane until it is run again",
            )
        with recovery_of(claimed.application, configs) as scratch:
            entry, failure = _done(recovery, scratch, claimed, logs, run_id=run_id)
    if as_json:
        print_json(entry)
    else:
        Console().print(f"{interval.name}: {entry.outcome}")
    if failure is not None:
        raise failure
    again.raise_unless_succeeded(entry)


def _done(
    recovery: RecoveryContext, scratch: RecoveryContext, claimed: Claimed, logs: Path, *, run_id: str
) -> tuple[ReprocessEntry, RecoveryError | None]:
    """The entry of the interval, and why it failed."""
    request, source = claimed.request, recovery.application_id
    planned: Planned | None = None
    ticket: restore.RestoreTicket | None = None
    handed: list[again.PublishReport] = []
    finished = False
    left: tuple[str, ...] = ()
    failure: RecoveryError | None = None
    try:
        again.clear(scratch, source, request, run_id=run_id)
        planned = again.plan(scratch, source, request)
        say(planned.text)
        if planned.records:
            opened = again.open_interval(scratch, source, request, planned, run_id=run_id, requested_by=getpass.getuser())
            ticket = opened
            carry_out(scratch, opened, runner(scratch, logs).job, say, at_ends=lambda: handed.append(_handed(scratch, opened, request)))
            finished = True
    except RecoveryError as error:
        failure = error
    finally:
        report = handed[-1] if handed else None
        if ticket is not None:
            left = removed(lambda recovery, ticket: again.remove(recovery, ticket, report), scratch, ticket, say)
        done = again.Done(planned=planned, ticket=ticket, handed=report, finished=finished, left=left)
        entry = again.conclude(recovery, request, done, run_id=run_id, requested_by=getpass.getuser())
    return entry, failure


def _handed(scratch: RecoveryContext, ticket: restore.RestoreTicket, request: again.ReprocessRequest) -> again.PublishReport:
    report = again.publish_results(scratch, ticket, request)
    for output in report.outputs:
        say(f"{output.output}: {output.results} results in {output.topic}, {output.written} written, {output.same} there already")
    return report


def reprocessed(name: Name, configs: Configs = DEFAULT_CONFIGS, *, as_json: AsJson = False) -> None:
    """List the intervals that were processed again, newest last."""
    with recovery_of(name, configs) as recovery:
        found = again.history(recovery)
    if as_json:
        print_json(found)
        return
    table = Table("from", "to", "run", "outcome", "base", "input records", "results", "written")
    for entry in found:
        table.add_row(*_row(entry))
    Console().print(table)


def _row(entry: ReprocessEntry) -> tuple[str, ...]:
    outputs = () if entry.handed is None else entry.handed.outputs
    return (
        moment(entry.start),
        moment(entry.end),
        moment(entry.at),
        entry.outcome,
        entry.savepoint_id or entry.base,
        "-" if entry.records is None else f"{entry.records:,}",
        f"{sum(output.results for output in outputs):,}",
        f"{sum(output.written + output.tombstones for output in outputs):,}",
    )
