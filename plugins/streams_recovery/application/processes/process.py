"""An application as processes on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from streams_recovery.application.processes import http_control
from streams_recovery.application.port import InstanceState, InstanceStatus, StopReport, WipeReport
from streams_recovery.application.processes.record import InstanceRecord, created_at
from streams_recovery.application.processes.settings import InstanceSettings, ProcessSettings
from streams_recovery.core.errors import ApplicationNotReady, ApplicationRunning, ConfigInvalid, Damaged, Refused

# An orchestrator's environment holds its secrets; an application gets what a login shell would have and what is configured.
_INHERITED = ("PATH", "HOME", "JAVA_HOME", "LANG", "LC_ALL", "TMPDIR", "TZ")
_SIGTERM_STATUS = 128 + signal.SIGTERM
_CLEAN = (0, _SIGTERM_STATUS, -int(signal.SIGTERM))
_KILL_SECONDS = 10.0
_LAUNCH_SECONDS = 20.0


class ProcessApplication:
    """See the port. Instances are children of a witness each (witness.py), in sessions of their own: they outlive whoever starts them.

    An unclean end is any that was not asked for, or that took SIGKILL, or that no witness saw.
    """

    def __init__(self, settings: ProcessSettings) -> None:
        self._settings = settings

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every configured instance."""
        return tuple(self._status(instance) for instance in self._settings.instances)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Launch what is gone, each under its witness."""
        self._settings.directory.mkdir(parents=True, exist_ok=True)
        for instance in self._settings.instances:
            record = self._record(instance)
            if record is None or not record.alive:
                self._launch(instance, environment or {})

    def stop(self, *, timeout: float) -> StopReport:
        """SIGTERM to all, then SIGKILL to what is left when the time is up."""
        alive = [(i, record) for i in self._settings.instances if (record := self._record(i)) is not None and record.alive]
        for instance, record in alive:
            self._path(instance, "stop-requested").touch()
            _signal(record, signal.SIGTERM)
        self._await_end(alive, timeout)
        for instance, record in alive:
            if record.alive:
                self._path(instance, "killed").touch()
                _signal(record, signal.SIGKILL)
        self._await_end(alive, _KILL_SECONDS)
        return StopReport(instances=self.status())

    def pause(self) -> None:
        """POST to every running instance, then see that each says it is paused."""
        self._command(self._settings.control.pause, "pause")
        unpaused = [s.name for s in self.status() if s.state is InstanceState.RUNNING and s.streams_state != "PAUSED"]
        if unpaused:
            raise ApplicationNotReady(
                f"asked to pause, but not paused: {', '.join(unpaused)}", next_step="look at these instances' logs", instances=unpaused
            )

    def resume(self) -> None:
        """POST to every running instance."""
        self._command(self._settings.control.resume, "resume")

    def wipe_state(self) -> WipeReport:
        """Remove the state of every instance, seen to be gone afterwards."""
        running = [status.name for status in self.status() if status.state is not InstanceState.GONE]
        if running:
            raise ApplicationRunning(
                f"cannot wipe the state of running instances: {', '.join(running)}", next_step="stop them first", instances=running
            )
        directories = [instance.state_directory / self._settings.application_id for instance in self._settings.instances]
        removed = [str(directory) for directory in directories if directory.exists()]
        for directory in directories:
            _remove(directory)
        return WipeReport(removed=tuple(removed), remaining=tuple(str(d) for d in directories if d.exists() or d.is_symlink()))

    def query(self, store: str) -> dict[str, object]:
        """All keys over all instances. While the application rebalances, asked again until the start timeout."""
        template = self._settings.control.query
        if template is None:
            raise Refused("this application offers no queries", next_step="set control.query in the configuration")
        deadline = time.monotonic() + self._settings.start_timeout
        while True:
            try:
                return self._merged(template, store)
            except ApplicationNotReady:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.5)

    def _merged(self, template: str, store: str) -> dict[str, object]:
        merged: dict[str, object] = {}
        for instance in self._running():
            for key, value in http_control.store(instance.url, template, store).items():
                if key in merged and merged[key] != value:
                    raise Damaged(
                        f"two instances claim key {key[:100]!r} of store {store} with different values",
                        next_step="wait for the rebalance to end and ask again; if it stays, local state of one is stale",
                        store=store,
                    )
                merged[key] = value
        return merged

    def _running(self) -> list[InstanceSettings]:
        running = [i for i in self._settings.instances if (record := self._record(i)) is not None and record.alive]
        if not running:
            raise ApplicationNotReady("no instance is running", next_step="start the application")
        return running

    def _command(self, path: str | None, verb: str) -> None:
        if path is None:
            raise Refused(f"this application offers no way to {verb}", next_step=f"set control.{verb}, or use consistency mode stop")
        for instance in self._running():
            http_control.post(instance.url, path)

    def _status(self, instance: InstanceSettings) -> InstanceStatus:
        record = self._record(instance)
        if record is None:
            return InstanceStatus(
                name=instance.name, state=InstanceState.GONE, streams_state=None, closed_cleanly=False, detail="never started"
            )
        if record.alive:
            state = http_control.streams_state(instance.url, self._settings.control.health)
            return InstanceStatus(
                name=instance.name, state=InstanceState.RUNNING, streams_state=state, closed_cleanly=None, detail=f"pid {record.pid}"
            )
        asked = self._path(instance, "stop-requested").exists() and not self._path(instance, "killed").exists()
        return InstanceStatus(
            name=instance.name,
            state=InstanceState.GONE,
            streams_state=None,
            closed_cleanly=asked and record.exit_status in _CLEAN,
            detail=f"pid {record.pid} ended with status {record.exit_status}",
        )

    def _launch(self, instance: InstanceSettings, environment: Mapping[str, str]) -> None:
        for mark in ("record", "stop-requested", "killed"):
            self._path(instance, mark).unlink(missing_ok=True)
        instance.state_directory.mkdir(parents=True, exist_ok=True)
        record, log = self._path(instance, "record"), self._settings.directory / f"{instance.name}.log"
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        package_root = str(Path(__file__).resolve().parents[3])
        witness = subprocess.Popen(
            [sys.executable, "-m", "streams_recovery.application.processes.witness", str(record), str(log), "--", *instance.command],
            cwd=self._settings.working_directory,
            env={**inherited, "PYTHONPATH": package_root, **instance.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _LAUNCH_SECONDS
        while not record.exists():
            if witness.poll() is not None or time.monotonic() > deadline:
                raise ConfigInvalid(
                    f"instance {instance.name} could not be started: {_tail(log)}",
                    next_step="check runs.process.command and that its program is installed",
                    instance=instance.name,
                )
            time.sleep(0.02)

    def _await_end(self, instances: list[tuple[InstanceSettings, InstanceRecord]], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(not self._settled(instance, record) for instance, record in instances):
            time.sleep(0.05)

    def _settled(self, instance: InstanceSettings, record: InstanceRecord) -> bool:
        # The witness needs a moment after the end to write it down; without it, a clean close would look unseen.
        if record.alive:
            return False
        current = self._record(instance) or record
        return current.exit_status is not None or created_at(record.witness) != record.witness_created

    def _record(self, instance: InstanceSettings) -> InstanceRecord | None:
        return InstanceRecord.read(self._path(instance, "record"))

    def _path(self, instance: InstanceSettings, what: str) -> Path:
        return self._settings.directory / f"{instance.name}.{what}"


def _signal(record: InstanceRecord, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        if record.alive:
            psutil.Process(record.pid).send_signal(number)


def _remove(directory: Path) -> None:
    if directory.is_symlink():
        raise Refused(
            f"{directory} is a symbolic link; it was not followed", next_step="remove it by hand, and what it points to if it is state"
        )
    if directory.exists():
        shutil.rmtree(directory)


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-300:].strip() if log.exists() else "it left no log"
