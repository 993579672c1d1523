"""Where a run is, seen from outside: by what it leaves in the repository and what becomes of the application."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from streams_recovery.application.port import InstanceState
from tests.support.stack.stage import Stage


def topic_settings(on: Stage) -> dict[str, dict[str, str]]:
    """Those that were set, of every topic."""
    cluster = on.recovery.cluster
    return {name: found.config for name, found in cluster.describe_topics(cluster.topic_names()).items()}


class Condition:
    """What a run has done so far, by what it left in the repository since this was made."""

    def __init__(self, on: Stage) -> None:
        self.on, self.root = on, on.stack.directory / "repository" / on.recovery.application_id
        self.known, self.ids = self._files(), on.recovery.savepoints.ids()
        self.settings = topic_settings(on)

    def _files(self) -> set[Path]:
        return {path for path in self.root.rglob("*") if path.is_file()}

    def new(self, pattern: str) -> list[Path]:
        """New files, in the order of their names. What a local directory has staged under a name with ``#`` is none yet."""
        return sorted(path for path in self.root.glob(pattern) if path not in self.known and "#" not in path.name)

    def held(self) -> bool:
        """Every instance stands still, paused or gone."""
        statuses = self.on.recovery.application.status()
        return all(status.state is InstanceState.GONE or status.streams_state == "PAUSED" for status in statuses)

    def going(self) -> bool:
        """Some instance works, or is on its way to."""
        statuses = self.on.recovery.application.status()
        return any(status.state is InstanceState.RUNNING and status.streams_state != "PAUSED" for status in statuses)

    def moment(self, phase: str) -> Callable[[], bool]:
        """Whether a run is past the heart of a phase, and not yet far into the next one."""
        return {
            "begin": lambda: bool(self.new("holds/*")),
            "quiesce": lambda: bool(self.new("quiesce-records/*")) and self.held(),
            "capture": lambda: bool(self.new("work/*/cut.*")),
            "resume": lambda: bool(self.new("work/*/cut.*")) and self.going(),
            "copy": lambda: bool(self.new("work/*/backup-spec.*")) and bool(self.new("segments/*-changelog/*/*")),
            "verify": lambda: bool(self.new("work/*/copied.*")),
            "publish": lambda: bool(self.new("savepoints/*/*")),
            # Between this and the end are only two small files.
            "finish": lambda: bool(self.new("savepoints/*/*")) and topic_settings(self.on) == self.settings,
        }[phase]

    def near(self, phase: str) -> Callable[[], bool]:
        """Whether that moment may come soon."""
        if phase in ("verify", "publish", "finish"):
            return lambda: bool(self.new("work/*/backup-result.*"))
        return lambda: bool(self.new("work/*/backup-spec.*" if phase == "copy" else "locks/*"))
