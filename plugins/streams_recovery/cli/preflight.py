"""The command that looks around before a run."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, AsJson, Configs, Mode, Name, print_json, recovery_of
from streams_recovery.cli.screen import line
from streams_recovery.core import codec
from streams_recovery.core.errors import Refused
from streams_recovery.core.escaping import Markdown, joined, md
from streams_recovery.core.ids import LATEST
from streams_recovery.core.preflight.findings import PreflightFinding, blocking
from streams_recovery.operations import preflight as looking
from streams_recovery.operations.context import RecoveryContext


def preflight(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    purpose: Annotated[Literal["backup", "restore"], typer.Option("--for", help="What is to be done.")] = "backup",
    savepoint: Annotated[str, typer.Option(help="For a restore: a savepoint's id, or `latest`.")] = LATEST,
    mode: Mode = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing rights and unsafe settings. Changes nothing. Exit code 3 when something blocks the run."""
    with recovery_of(name, configs) as recovery:
        found = looking.before_backup(recovery, mode) if purpose == "backup" else _before_restore(recovery, savepoint)
        found = (*found, *looking.of_repository(recovery))
    stopping = blocking(found)
    if as_json:
        print_json({"ready": not stopping, "findings": codec.encode(found)})
    else:
        _tell(found)
    if stopping:
        raise typer.Exit(Refused.exit_code)


def _before_restore(recovery: RecoveryContext, savepoint: str) -> tuple[PreflightFinding, ...]:
    store = recovery.savepoints
    manifest = store.latest(read=store.outline) if savepoint == LATEST else store.outline(savepoint)
    return looking.before_restore(recovery, manifest)


def findings_text(found: tuple[PreflightFinding, ...]) -> Markdown:
    """What was found."""
    if not found:
        return md("Nothing blocks it, and there is no warning.")
    return joined(md("- **{}**: {}", finding.severity, finding.text) for finding in found)


def _tell(found: tuple[PreflightFinding, ...]) -> None:
    for finding in found:
        line(f"{finding.severity}: {finding.text}")
        line(f"    {finding.remedy}")
    blockers = len(blocking(found))
    line(f"{_counted(blockers, 'blocker')}, {_counted(len(found) - blockers, 'warning')}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
