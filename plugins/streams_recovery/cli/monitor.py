"""The command that does what ``streams_monitor`` does, where there is no Airflow: it looks at applications, stores what it sees, and prints what it finds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from streams_recovery.cli.context import DEFAULT_CONFIGS, Configs, recovery_of
from streams_recovery.cli.screen import AsJson, failures, line, print_json, say, say_error
from streams_recovery.config.loader import load_all
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.status.info import news_lines
from streams_recovery.core.status.report import StatusReport
from streams_recovery.operations.status.cluster import ping
from streams_recovery.operations.status.look import watch


def monitor(
    name: Annotated[
        str, typer.Argument(metavar="[APP]", help="Name of the application's configuration file; without it all of them.")
    ] = "",
    configs: Configs = DEFAULT_CONFIGS,
    *,
    every: Annotated[
        float | None,
        typer.Option("--every", min=1, help="Seconds from one look to the next, until it is stopped; without it, it looks once."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at applications as the monitor does, store what is seen, and print what is found. Notifiers are Airflow's, and are not used: what is printed is for
    cron, systemd or a log to tell. With --every a finding is printed when it is new and when it is over.
    """
    if every is not None and as_json:
        raise typer.BadParameter("--json is for one look, without --every")
    watcher = _Watcher(configs, say if as_json else line)
    if every is None:
        looks = dict(watcher.looks(name))
        if as_json:
            print_json({"applications": looks, "failed": failures(watcher.failed)})
        raise typer.Exit(max((error.exit_code for error in watcher.failed.values()), default=0))
    while True:
        begun = time.monotonic()
        for _ in watcher.looks(name):
            pass
        time.sleep(max(0.0, begun + every - time.monotonic()))


@dataclass(slots=True)
class _Watcher:
    """Looks, one application after the other. What was found in the look before is known, and is not printed again."""

    configs: Path
    tell: Callable[[str], None]
    known: dict[str, StatusReport] = field(default_factory=dict)
    failed: dict[str, RecoveryError] = field(default_factory=dict)

    def looks(self, name: str) -> Iterator[tuple[str, StatusReport]]:
        """One look at each application, with its name. What fails is in ``failed``, and takes nothing from the others."""
        configured = None if name else load_all(self.configs, os.environ)
        self.failed = {} if configured is None else dict(configured.broken)
        for error in self.failed.values():
            say_error(error)
        for one in [name] if configured is None else sorted(configured.applications):
            try:
                with recovery_of(one, self.configs) as recovery:
                    report = watch(recovery)
                    where = recovery.config.monitor.ping_url
            except RecoveryError as error:
                self.failed[one] = error
                say(f"{one} could not be looked at:")
                say_error(error)
                continue
            self._tell(one, report)
            if where and (problem := ping(where)):
                say(f"{one}: the ping failed: {problem}")
            yield one, report

    def _tell(self, name: str, report: StatusReport) -> None:
        for text in news_lines(self.known.get(name), report):
            self.tell(f"{name}: {text}")
        self.known[name] = report
