"""The command that puts later input behind the inputs again."""

from __future__ import annotations

from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.approval import Approve, PlanOnly, approved, show_plan
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
from streams_recovery.cli.screen import line
from streams_recovery.operations import restore


def append_quarantine(
    name: Name,
    restore_id: Annotated[str, typer.Argument(metavar="[RESTORE]", help="The restore that has set it aside, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    plan_only: PlanOnly = False,
    approve: Approve = None,
    as_json: AsJson = False,
) -> None:
    """Append input again that a restore to a moment has taken out of the inputs in place. Nobody else may write to them meanwhile."""
    with recovery_of(name, configs) as recovery:
        if plan_only:
            planned = restore.plan_append(recovery, restore_id)
            show_plan(planned, planned.text, as_json=as_json)
            return
        done = runs.append(
            runner(recovery, logs),
            restore_id,
            requester(),
            approve=lambda planned: approved(planned, planned.text, approve, typed=planned.application_id),
        )
    if as_json:
        print_json(done)
    else:
        line(f"{done.rows:,} records appended to {done.partitions} partitions, {done.present:,} of them were there and equal")
