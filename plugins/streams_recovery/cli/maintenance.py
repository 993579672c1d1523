"""The commands that look after a repository."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from streams_recovery.cli import runs
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, print_json, recovery_of, runner, say
from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, RepositoryUnavailable
from streams_recovery.core.repository.check_findings import Cause
from streams_recovery.operations import maintenance, quiesce_record, unfinished

# What could not be removed is no error of the run, but somebody has to know.
LEFT_BEHIND = 8

Id = Annotated[str, typer.Argument(metavar="ID", help="A savepoint's id.")]
Reason = Annotated[str, typer.Option("--reason", help="Kept with the pin.")]


def verify(
    name: Name,
    savepoint: Annotated[str, typer.Argument(metavar="[ID]", help="A savepoint's id, or `all`.")] = maintenance.ALL,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    level: Annotated[str, typer.Option(help="structure: manifests and sizes; full: every byte; sample=10%: a share.")] = "structure",
    as_json: AsJson = False,
) -> None:
    """Check that savepoints are still what was written. Exit codes from 20 on say what is wrong: see docs/command-line.md."""
    try:
        with recovery_of(name, configs) as recovery:
            report = runs.check(runner(recovery, logs), savepoint_id=savepoint, level=level, run_id=f"cli-{uuid.uuid4().hex}")
    except RepositoryUnavailable as error:
        if as_json:
            print_json({"good": False, "exit_code": Cause.UNREACHABLE.exit_code, "causes": [Cause.UNREACHABLE]})
        say(f"{type(error).__name__}: {error.reason}. Next: {Cause.UNREACHABLE.next_step}")
        raise typer.Exit(Cause.UNREACHABLE.exit_code) from None
    if as_json:
        print_json({"good": report.good, "exit_code": report.exit_code, "causes": list(report.causes), **codec.encode(report)})
    else:
        for found in report.findings:
            say(str(found))
        Console().print(
            f"{'good' if report.good else 'NOT GOOD'}: {report.savepoints} savepoints, {report.records} records, {report.files} files, "
            f"{report.files_read} of them read with {report.rows_read:,} rows, {len(report.findings)} findings"
        )
    try:
        maintenance.raise_unless_good(report)
    except Damaged as error:
        say(f"{type(error).__name__}: {error}")
        raise typer.Exit(report.exit_code) from None


def expire(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this the plan is shown and nothing is touched.")] = False,
    as_json: AsJson = False,
) -> None:
    """Expire savepoints that no rule of `retention` keeps, and remove files whose grace period is over."""
    with recovery_of(name, configs) as recovery:
        if not apply:
            plan = maintenance.plan_expiry(recovery)
            print_json(plan) if as_json else Console().print(Markdown(maintenance.expiry_text(plan)))
            return
        report = maintenance.expire(recovery, f"cli-{uuid.uuid4().hex}")
    if as_json:
        print_json(report)
    else:
        Console().print(
            f"{len(report.expired)} savepoints expired, {report.files_removed} files removed, {len(report.left)} could not be removed"
        )
        for left in report.left:
            say(left)
        if report.versions_kept:
            say("The bucket keeps versions: what was removed takes room until a lifecycle rule of the bucket lets older versions go")
    if report.left:
        raise typer.Exit(LEFT_BEHIND)


def undelete(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this the plan is shown and nothing is touched.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring back savepoints that were deleted from a bucket with versions, or written over in it."""
    with recovery_of(name, configs) as recovery:
        done = maintenance.undelete(recovery, run_id=f"cli-{uuid.uuid4().hex}", say=say) if apply else maintenance.plan_undelete(recovery)
    if as_json:
        print_json(done)
        return
    if not apply:
        table = Table("object", "was", "bytes")
        for one in done.objects:
            table.add_row(one.key, one.harm, f"{one.bytes:,}")
        Console().print(table)
    Console().print(f"{len(done.objects)} objects with {done.bytes:,} bytes {'were' if apply else 'would be'} brought back")
    if apply:
        say("Next: `verify --level full`")


def keep(name: Name, savepoint: Id, reason: Reason, configs: Configs = DEFAULT_CONFIGS) -> None:
    """Keep a savepoint whatever the rules say."""
    with recovery_of(name, configs) as recovery:
        maintenance.pin(recovery, savepoint, keep=True, requested_by=getpass.getuser(), reason=reason)


def release(
    name: Name,
    savepoint: Id,
    reason: Reason,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    restore: Annotated[str | None, typer.Option("--restore", help="Give up the later input that this restore has set aside there.")] = None,
) -> None:
    """Leave a savepoint that was kept to the rules again."""
    with recovery_of(name, configs) as recovery:
        left = maintenance.pin(recovery, savepoint, keep=False, requested_by=getpass.getuser(), reason=reason, restore_id=restore)
    for restore_id in left:
        say(
            f"still kept: it has the later input of restore {restore_id}. Next: `append-quarantine {name} {restore_id}` puts it back, "
            f"`savepoints release {name} {savepoint} --restore {restore_id}` gives it up"
        )


def dismiss(
    name: Name, restore: Annotated[str, typer.Argument(metavar="RESTORE", help="The restore's id.")], configs: Configs = DEFAULT_CONFIGS
) -> None:
    """Declare a restore over that failed, because the application was brought back in another way. Savepoints are taken again after it."""
    with recovery_of(name, configs) as recovery:
        unfinished.dismiss(recovery, restore)


def unlock(
    name: Name,
    owner: Annotated[
        str, typer.Argument(help="Who holds the lock, exactly as the error says; or the key of a record that cannot be read.")
    ],
    configs: Configs = DEFAULT_CONFIGS,
) -> None:
    """Take an application's lock from a run that is dead. Make sure that it is: one that lives stops at its next step."""
    with recovery_of(name, configs) as recovery:
        say("taken" if recovery.lock.take_from(owner) else "no run holds the lock")
        held = quiesce_record.left(recovery)
        if held is not None:
            say(f"{', '.join(held.instances)} may still stand still (mode {held.mode}): the next savepoint brings them back first")
