"""Records of one instance, in files beside each other: how it was started, who asked it to stop, how it was seen to end.

Each is replaced in one step and carries the run it is about, so one left over from an earlier run is never taken for this one's.

A process is named by its pid and its *birth*: boot id and start tick on Linux, where the start time in seconds moves whenever the clock is
set, else the start time. A pid alone says nothing: it is given to another process once its owner is gone. A zombie without a living thread counts as
gone: it cannot do anything any more.

A lock on a file is held by a process and gone with it, whatever happens to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import psutil

from streams_recovery.core import codec
from streams_recovery.core.durable import sync_directory
from streams_recovery.core.errors import ApplicationNotReady

T = TypeVar("T")

_LINUX = sys.platform == "linux"
_PROC = Path("/proc")
# A JVM that SIGTERM ends runs its shutdown hooks and exits with 143, whether or not one of them closes Kafka Streams. So these are what is required of
# a clean end, and prove it only for a program that ends with another status when it did not close.
_CLEAN_STATUS = (0, 128 + signal.SIGTERM)
# Closing after these proves nothing: the threads that would have flushed and committed had died before.
_DEAD_STATES = ("ERROR", "PENDING_ERROR", "NOT_RUNNING")
_RETRY_SECONDS = 0.05


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
    """A request that a run ends. ``state_before`` is what Kafka Streams reported right before, None when it did not answer. ``reported_closed`` is
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
        """Output of the supervisor, normally nothing."""
        return self.home / "supervisor.log"

    @property
    def was_stopped(self) -> bool:
        """True when it was ever asked to stop from here."""
        return (self.home / "stop-requested.json").exists()

    def started(self) -> Started | None:
        """The newest run, None when there never was one here. Raises ``Damaged``."""
        return _read(Started, self.home / "started.json")

    def stop_request(self, run: str) -> StopRequest | None:
        """The request to end this run, if anybody asked. Raises ``Damaged``."""
        found = _read(StopRequest, self.home / "stop-requested.json")
        return found if found is not None and found.run == run else None

    def ask_to_stop(self, run: str, state: str | None, *, reported_closed: bool | None) -> None:
        """Put on record that this run was asked to end. The state that the first request found counts: a later one finds an instance that is closing.
        Raises ``Damaged``.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        by = f"{getpass.getuser()}@{platform.node()}, pid {os.getpid()}"
        request = self.stop_request(run) or StopRequest(
            run=run, by=by, at=time.time_ns() // 1_000_000, state_before=state, reported_closed=reported_closed
        )
        self.write(replace(request, reported_closed=reported_closed))

    def ended(self, run: str) -> Ended | None:
        """The end of this run as it was seen. None while it lives, and for good when no supervisor saw its end. Raises ``Damaged``."""
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


@contextlib.contextmanager
def held(path: Path, *, seconds: float) -> Iterator[int]:
    """Hold the lock on ``path``, waiting for it up to ``seconds``. The file descriptor may be inherited: then the lock lasts until the heir
    closes it too. Raises ``ApplicationNotReady``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise ApplicationNotReady(
                    f"another call has been starting or stopping this instance for {seconds:.0f} s",
                    next_step="wait for it to end, then try again",
                    lock=str(path),
                )
            time.sleep(_RETRY_SECONDS)
        yield handle
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """True when anybody holds the lock."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _taken(handle)
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place where a pid counts: one kernel since one boot, one pid namespace. Pids of another place say nothing here."""

    host: str
    boot: str
    namespace: str

    @classmethod
    def here(cls) -> Place:
        """The place where this runs."""
        if not _LINUX:
            return cls(host=platform.node(), boot="", namespace="")
        return cls(host=platform.node(), boot=_boot(), namespace=str((_PROC / "self/ns/pid").readlink()))

    def visible_from(self, other: Place) -> bool:
        """True when a pid of this place that ``other`` cannot find is proof of an end. Same host after a reboot or a container's restart: yes."""
        same_kernel = bool(self.boot) and (self.boot, self.namespace) == (other.boot, other.namespace)
        return same_kernel or self.host == other.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process for good."""

    pid: int
    born: str

    @classmethod
    def current(cls) -> Process:
        """The process this runs in."""
        return cls(pid=os.getpid(), born=birth(os.getpid()) or "")

    @property
    def alive(self) -> bool:
        """True while this very process lives."""
        return birth(self.pid) == self.born

    def signal(self, number: signal.Signals) -> None:
        """Signal this very process, never one that was given its pid later. Does nothing when it is gone. Raises ``PermissionError``."""
        with contextlib.suppress(ProcessLookupError):
            # The handle before the look: if the pid had changed hands by then, the look shows it; later the handle stays with the process.
            handle = _handle(self.pid)
            try:
                if not self.alive:
                    return
                if handle is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
            finally:
                if handle is not None:
                    os.close(handle)


# In the place of a supervisor, for an instance that was not started from here.
NO_SUPERVISOR: Final = Process(pid=0, born="")


def birth(pid: int) -> str | None:
    """The value that tells this process from every other that has or had its pid, or None when no such process is alive."""
    if not _LINUX:
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else repr(process.create_time())
        except psutil.Error:
            return None
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may itself hold spaces and parentheses. After it: state, ppid, pgrp, session, ... num_threads (field 20), starttime (22).
    fields = text[text.rindex(")") + 2 :].split()
    state, threads = fields[0], int(fields[17])
    # The state is that of the first thread. One that has ended waits as a zombie for the others, which may run for as long as they like.
    return None if state == "X" or (state == "Z" and threads <= 1) else f"{_boot()}/{fields[19]}"


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _handle(pid: int) -> int | None:
    # Between looking and signalling a pid can change hands; a handle on the process cannot. Old kernels and other systems have none.
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None


def is_hidden(process: Process) -> bool:
    """True when something has this process's pid and may not be seen: it is another user's, and ``/proc`` is mounted with hidepid."""
    if birth(process.pid) is not None:
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A zombie of ours has a pid and no birth.
    return False


def session_of(leader: Process) -> tuple[Process, ...]:
    """Every running process in the session that ``leader`` founded, itself included while it lives, also if it founded none.

    A session's number is not given to a new process while the session has members. Should the number have been reused after the whole
    session ended, and its new owner run, that has another birth, and nothing here is ours. The new owner may have ended before its session has, as that of a
    daemon does: so after a reboot nothing is ours, and of a leader that has ended nothing that began before it. Within one boot a later session of that number
    whose own leader has ended too cannot be told apart.
    """
    owner = birth(leader.pid)
    if (owner is not None and owner != leader.born) or (_LINUX and leader.born.partition("/")[0] != _boot()):
        return ()
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if leader.pid in (pid, os.getsid(pid)) and (born := birth(pid)) is not None:
                members.append(Process(pid=pid, born=born))
    return tuple(one for one in members if owner is not None or _start(one) >= _start(leader))


def _start(process: Process) -> float:
    return float(process.born.rpartition("/")[2])


def members_of(run: Started) -> tuple[Process, ...]:
    """Every running process of a run. One that was not started from here was found alone: it is all that is ours."""
    if run.supervisor == NO_SUPERVISOR:
        return (run.process,) if run.process.alive else ()
    return session_of(run.process)
