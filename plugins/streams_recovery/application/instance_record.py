"""What is known of one instance, in files beside each other: how it was started, who asked it to stop, how it was seen to end.

Each is replaced in one step and carries the run it is about, so one left over from an earlier run is never taken for this one's.
"""

from __future__ import annotations

import getpass
import os
import platform
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from streams_recovery.application.process_identity import Place, Process
from streams_recovery.core import codec
from streams_recovery.core.durable import sync_directory

T = TypeVar("T")

# A JVM that SIGTERM ends runs its shutdown hooks and exits with 143, whether or not one of them closes Kafka Streams. So these are what is required of
# a clean end, and prove it only for a program that ends with another status when it did not close.
_CLEAN_STATUS = (0, 128 + signal.SIGTERM)
# Closing after these proves nothing: the threads that would have flushed and committed had died before.
_DEAD_STATES = ("ERROR", "PENDING_ERROR", "NOT_RUNNING")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One run of an instance, as its supervisor recorded it. ``at`` is in milliseconds since the epoch."""

    run: str
    place: Place
    supervisor: Process
    process: Process
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """Somebody's wish that a run ends. ``state_before`` is what Kafka Streams reported right before, None when it did not answer. ``reported_closed`` is
    whether it then said that Kafka Streams was closed, None when it offers no way to ask for that.
    """

    run: str
    by: str
    at: int
    state_before: str | None
    reported_closed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run as its supervisor saw it. ``status`` is negative for the signal that killed it. ``left_behind`` counts processes of its
    session that outlived it.
    """

    run: str
    status: int
    left_behind: int
    stop_request: StopRequest | None
    at: int

    @property
    def clean(self) -> bool:
        """True when it was asked to end, while it was in working order, said that it was closed if it can, and ended by itself."""
        stop_request = self.stop_request
        closed = stop_request is not None and stop_request.state_before not in _DEAD_STATES and stop_request.reported_closed is not False
        return closed and self.status in _CLEAN_STATUS and self.left_behind == 0

    @property
    def reported_closed(self) -> bool:
        """True when it said itself that Kafka Streams was closed."""
        return self.stop_request is not None and self.stop_request.reported_closed is True

    def __str__(self) -> str:
        how = f"killed by {signal.Signals(-self.status).name}" if self.status < 0 else f"exit status {self.status}"
        stop_request = f", asked by {self.stop_request.by}" if self.stop_request else ", not asked to"
        before = (
            f", {self.stop_request.state_before} before" if self.stop_request and self.stop_request.state_before in _DEAD_STATES else ""
        )
        before += ", did not say that it was closed" if self.stop_request and self.stop_request.reported_closed is False else ""
        left = f", {self.left_behind} processes outlived it" if self.left_behind else ""
        return f"{how}{stop_request}{before}{left}"


@dataclass(frozen=True, slots=True)
class InstanceFiles:
    """The files of one instance. ``log`` is what the program prints."""

    directory: Path
    name: str

    @property
    def log(self) -> Path:
        """Output of the program, appended to over all its runs."""
        return self.directory / f"{self.name}.log"

    @property
    def home(self) -> Path:
        """All other files of the instance are in here."""
        return self.directory / self.name

    @property
    def lock(self) -> Path:
        """Held while the instance is being started or stopped."""
        return self.home / "lock"

    @property
    def alive(self) -> Path:
        """Locked by every process of a run that did not close the descriptor it inherited: the one proof of life that needs no record."""
        return self.home / "alive"

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor has to say, normally nothing."""
        return self.home / "supervisor.log"

    def started(self) -> Started | None:
        """The newest run, None when there never was one here. Raises ``Damaged``."""
        return _read(Started, self.home / "started.json")

    def stop_request(self, run: str) -> StopRequest | None:
        """The request to end this run, if anybody asked. Raises ``Damaged``."""
        found = _read(StopRequest, self.home / "stop-requested.json")
        return found if found is not None and found.run == run else None

    def ask_to_stop(self, run: str, state: str | None, *, reported_closed: bool | None) -> None:
        """Put on record that somebody wants this run to end. What the first request found counts: a later one finds an instance that is closing.
        Raises ``Damaged``.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        by = f"{getpass.getuser()}@{platform.node()}, pid {os.getpid()}"
        request = self.stop_request(run) or StopRequest(
            run=run, by=by, at=time.time_ns() // 1_000_000, state_before=state, reported_closed=reported_closed
        )
        self.write(replace(request, reported_closed=reported_closed))

    def ended(self, run: str) -> Ended | None:
        """How this run was seen to end. None while it lives, and for good when nobody saw it. Raises ``Damaged``."""
        found = _read(Ended, self.home / "ended.json")
        return found if found is not None and found.run == run else None

    def write(self, what: Started | StopRequest | Ended) -> None:
        """Replace the file for this kind of record, on disk when this returns."""
        name = {Started: "started", StopRequest: "stop-requested", Ended: "ended"}[type(what)]
        path = self.home / f"{name}.json"
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("wb") as file:
            file.write(codec.dumps(what))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_directory(self.home)


def _read(kind: type[T], path: Path) -> T | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return codec.loads(kind, data, where=str(path))
