"""Archiving from a terminal, for as long as it runs."""

from __future__ import annotations

import time
import uuid
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, DEFAULT_LOGS, Configs, Logs, Name, recovery_of, runner
from streams_recovery.cli.screen import line
from streams_recovery.core.errors import TransientError
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.operations import archive as operations

_LEAST_PAUSE, _MOST_PAUSE = 5.0, 300.0
# One that has run for so long was not broken from its beginning.
_SETTLED_SECONDS = 600.0


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
    pause = _LEAST_PAUSE
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            _once(name, configs, logs, min(operations.HAND_OVER_SECONDS, until - began))
            pause = _LEAST_PAUSE
        except TransientError as error:
            pause = _LEAST_PAUSE if time.monotonic() - began > _SETTLED_SECONDS else pause
            line(f"nothing is archived: {error.reason}; again in {pause:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, _MOST_PAUSE)


def _once(name: str, configs: Configs, logs: Logs, seconds: float) -> None:
    """One archiver, from its start until it hands over."""
    with recovery_of(name, configs) as recovery:
        run = f"cli-{uuid.uuid4().hex}"
        ticket = operations.begin(recovery, run, hand_over_seconds=seconds)
        line(f"archiving {', '.join(ticket.topics)} of {recovery.application_id} every {recovery.config.archive.interval}")
        job = SparkJob(
            name="archive",
            repository=recovery.repository,
            connection=recovery.connection,
            credentials=recovery.credentials,
            spec=ticket.spec,
            result_key=ticket.result_key,
        )
        runner(recovery, logs).submitter.submit(job)
