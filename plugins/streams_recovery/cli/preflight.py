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
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations import preflight as looking
from streams_recovery.operations.context import RecoveryContext


def preflight(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    *,
    purpose: Annotated[Literal["backup", "restore"], typer.Option("--for", help="What is to be done.")] = "backup",
    savepoint: Annotated[str, typer.Option(help="For a restore: a savepoint's id, or `latest`.")] = LATEST,
    mode: Mode = None,
    site: Annotated[
        str | None, typer.Option(metavar="SITE", help="Look at this site, before a failover to it with that savepoint.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing rights and unsafe settings. Changes nothing. Exit code 3 when something blocks the run."""
    with recovery_of(name, configs, site) as recovery:
        if site is not None and site != recovery.sites.current():
            found = looking.before_failover(recovery, _savepoint(recovery, savepoint))
        elif purpose == "backup":
            found = looking.before_backup(recovery, mode)
        else:
            found = looking.before_restore(recovery, _savepoint(recovery, savepoint))
        found = (*found, *looking.of_repository(recovery))
    stopping = blocking(found)
    if as_json:
        print_json({"ready": not stopping, "findings": codec.encode(found)})
    else:
        _tell(found)
    if stopping:
        raise typer.Exit(Refused.exit_code)


def _savepoint(recovery: RecoveryContext, savepoint: str) -> Manifest | None:
    store = recovery.savepoints
    return store.latest(read=store.outline) if savepoint == LATEST else store.outline(savepoint)


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
