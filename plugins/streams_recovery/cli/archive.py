"""Archiving from a terminal, for as long as it runs."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from streams_recovery.cli import runs
from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, Configs, Logs, Name, recovery_of, requester, runner
from streams_recovery.cli.screen import line
from streams_recovery.core.archive.tick import HAND_OVER_SECONDS


def archive(
    name: Name,
    configs: Configs = DEFAULT_CONFIGS,
    logs: Logs = DEFAULT_LOGS,
    *,
    seconds: Annotated[
        float | None, typer.Option("--for", min=1, help="Seconds after which it ends; without it, it goes on until it is stopped.")
    ] = None,
) -> None:
    """Archive inputs and globals all the time, every archive.interval, until it is stopped. After an error it begins again, and waits longer each time."""
    until = float("inf") if seconds is None else time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        # Each day anew: what has changed in the configuration counts from then on.
        with recovery_of(name, configs) as recovery:
            line(f"archiving inputs and globals of {recovery.application_id} every {recovery.config.archive.interval}")
            runs.archive(runner(recovery, logs), requester().run_id, min(HAND_OVER_SECONDS, left))
