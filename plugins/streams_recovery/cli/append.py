"""The command that puts later input behind the inputs again."""

from __future__ import annotations

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
from streams_recovery.core import codec
from streams_recovery.operations import restore


def append_quarantine(
    name: Name,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="The restore that has set it aside, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the plan and its hash, and change nothing.")] = False,
    approve: Annotated[str | None, typer.Option("--approve", help="Hash of the plan that may be carried out without asking.")] = None,
    as_json: AsJson = False,
) -> None:
    """Append input again that a restore to a moment has taken out of the inputs in place. Nobody else may write to them meanwhile."""
    with recovery_of(name, configs) as recovery:
        if plan_only:
            planned = restore.plan_append(recovery, restore_id)
            print_json({"hash": planned.hash, **codec.encode(planned)}) if as_json else Console().print(Markdown(planned.text))
            return
        done = runs.append(
            runner(recovery, logs),
            restore_id,
            requester(),
            approve=lambda planned: _typed(planned) if approve is None else approve == planned.hash,
        )
    if as_json:
        print_json(done)
    else:
        Console().print(f"{done.rows:,} records appended to {done.partitions} partitions, {done.present:,} of them were there and equal")


def _typed(planned: restore.AppendPlan) -> bool:
    Console(stderr=True).print(Markdown(planned.text))
    typed: str = typer.prompt(f"Type the application id {planned.application_id} to carry this out", err=True)
    return typed == planned.application_id
