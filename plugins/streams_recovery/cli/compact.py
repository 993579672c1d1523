"""The commands that make a savepoint smaller, and that join its small files."""

from __future__ import annotations

import getpass
import uuid
from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.approval import PlanOnly
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, AsJson, Configs, Logs, Name, option, print_json, recovery_of, runner
from streams_recovery.cli.screen import line, page, say, say_command
from streams_recovery.core.forms import reason_field
from streams_recovery.core.next_command import command
from streams_recovery.operations import compaction


def compact(
    name: Name,
    savepoint: Annotated[str, typer.Argument(metavar="[ID]", help="A savepoint's id, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Annotated[str, option(reason_field("the new savepoint"))] = "by hand",
    *,
    plan_only: PlanOnly = False,
    as_json: AsJson = False,
) -> None:
    """Compact a savepoint's changelogs to the newest record of each key, as a new savepoint of the same moment. The old one stays."""
    with recovery_of(name, configs) as recovery:
        if plan_only:
            plan = compaction.plan(recovery, savepoint)
            print_json(plan) if as_json else page(compaction.compaction_text(plan))
            return
        request = compaction.CompactRequest(
            savepoint=savepoint, run_id=f"cli-{uuid.uuid4().hex}", requested_by=getpass.getuser(), reason=reason
        )
        done = runs.compact(runner(recovery, logs), request)
    if as_json:
        print_json(done)
    elif done is None:
        say_command("Nothing to compact. This says why:", command("compact", name, savepoint, "--plan"))
    else:
        for topic, why in done.stays.items():
            say(f"{topic} stays as it is: {why}")
        line(
            f"savepoint {done.savepoint_id}: {done.records_before:,} records of {done.source_id} became {done.records:,}, "
            f"{done.keys_compared:,} keys compared"
        )


def merge(
    name: Name,
    savepoint: Annotated[str, typer.Argument(metavar="[ID]", help="A savepoint's id, or `latest`.")] = "latest",
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    reason: Annotated[str, option(reason_field("the new savepoint"))] = "by hand",
    *,
    plan_only: PlanOnly = False,
    as_json: AsJson = False,
) -> None:
    """Join small files of a savepoint's partitions, as a new savepoint of the same moment and records. The old one stays."""
    with recovery_of(name, configs) as recovery:
        if plan_only:
            plan = compaction.merge.plan(recovery, savepoint)
            print_json(plan) if as_json else page(compaction.merge.merge_text(plan))
            return
        request = compaction.merge.MergeRequest(
            savepoint=savepoint, run_id=f"cli-{uuid.uuid4().hex}", requested_by=getpass.getuser(), reason=reason
        )
        done = runs.merge(runner(recovery, logs), request)
    if as_json:
        print_json(done)
    elif done is None:
        say("No files are worth merging: see retention.merge_files")
    else:
        line(
            f"savepoint {done.savepoint_id}: {done.files_before:,} files of {done.source_id} became {done.files:,}, {done.rows:,} records compared"
        )
