"""The command that shows what there is of each application. It needs no cluster."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, FromPlace, recovery_of
from streams_recovery.cli.screen import AsJson, failures, line, print_json, say
from streams_recovery.config.loader import load_all
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.status.info import ApplicationInfo, info_lines
from streams_recovery.operations.status.info import application_info


def info(
    name: Annotated[
        str, typer.Argument(metavar="[APP]", help="Name of the application's configuration file; without it all of them.")
    ] = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    place: FromPlace = None,
    as_json: AsJson = False,
) -> None:
    """Show what there is of an application: status, newest savepoint, objective, sizes. Reads the repository only, so it needs no cluster."""
    if name:
        with recovery_of(name, configs, place=place, lost=False) as recovery:
            found, failed = [application_info(recovery)], dict[str, RecoveryError]()
    else:
        found, failed = _all(configs, place)
    if as_json:
        print_json({"applications": found, "failed": failures(failed)})
    else:
        now = time.time_ns() // 1_000_000
        for one in found:
            for text in info_lines(one, now):
                line(text)
        for broken, error in failed.items():
            line(f"application: {broken}")
            line(f"    status: unknown: {'; '.join(error.reason.splitlines())}. Next: {error.next_step}")
    if failed:
        say(f"{len(failed)} of {len(found) + len(failed)} applications could not be looked at")
        raise typer.Exit(max(error.exit_code for error in failed.values()))


def _all(configs: Path, place: Where | None) -> tuple[list[ApplicationInfo], dict[str, RecoveryError]]:
    """Every configured application. One that cannot be looked at takes nothing from the others."""
    configured = load_all(configs, os.environ)
    found: list[ApplicationInfo] = []
    failed: dict[str, RecoveryError] = dict(configured.broken)
    for name in configured.applications:
        try:
            with recovery_of(name, configs, place=place, lost=False) as recovery:
                found.append(application_info(recovery))
        except RecoveryError as error:
            failed[name] = error
    return found, failed
