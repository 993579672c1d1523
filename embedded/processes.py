"""Child processes that are always stopped again: by the one who started them, or, when that one was killed, by the next who comes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from streams_recovery.core.errors import ApplicationNotReady

_TERM_SECONDS = 20.0
_KILL_SECONDS = 5.0


def created_at(pid: int) -> float | None:
    """The time at which a live process started, None when there is none. With the pid it names a process for good: pids are reused."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


class Processes:
    """Processes of one stack, each in a session of its own, its output in ``directory/{name}.log``. ``directory/processes.json`` names them
    by pid and start time, so that nobody else's process is ever signalled.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._state = directory / "processes.json"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        self.stop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop_all()

    def start(self, name: str, command: list[str], *, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> None:
        """Start a process under a name that is free."""
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                command,
                env=dict(environment) if environment is not None else None,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[name] = child
        self._save({**self.recorded(), name: [child.pid, created_at(child.pid)]})

    def check(self, name: str) -> None:
        """Raise ``ApplicationNotReady`` with the end of its log when the process has ended."""
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            tail = self.log(name).read_text(errors="replace")[-1500:]
            raise ApplicationNotReady(
                f"{name} ended with status {child.returncode}: {tail}",
                next_step=f"see {self.log(name)}",
                process=name,
                status=child.returncode,
            )

    def stop(self, name: str, *, seconds: float = _TERM_SECONDS) -> None:
        """End one process and everything in its session: SIGTERM, then, after ``seconds``, SIGKILL."""
        known = self.recorded()
        if name not in known:
            return
        pid, created = known.pop(name)
        _stop_session(pid, created, seconds)
        child = self._children.pop(name, None)
        if child is not None:
            child.wait()
        self._save(known)

    def stop_all(self) -> tuple[str, ...]:
        """End all, the last one started first, and return the names of those that were alive."""
        known = self.recorded()
        alive = tuple(name for name, (pid, created) in known.items() if created is not None and created_at(pid) == created)
        with _uninterrupted():
            for name in reversed(list(known)):
                self.stop(name)
        return alive

    def log(self, name: str) -> Path:
        """The file with the output of a process, that of earlier ones of this name first."""
        return self._directory / f"{name}.log"

    def recorded(self) -> dict[str, tuple[int, float | None]]:
        """The processes that the state file names, in the order of starting."""
        try:
            return {name: (pid, created) for name, (pid, created) in json.loads(self._state.read_text()).items()}
        except FileNotFoundError:
            return {}

    def _save(self, known: Mapping[str, object]) -> None:
        beside = self._state.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(known))
        beside.replace(self._state)


def _session(pid: int) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def _stop_session(pid: int, created: float | None, patience: float) -> None:
    if created is None or created_at(pid) not in (created, None):
        return
    # A leader that died first leaves its session behind; a pid that names a session cannot be given to a new process meanwhile.
    members = _session(pid)
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, _KILL_SECONDS)):
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        deadline = time.monotonic() + seconds
        while members and time.monotonic() < deadline:
            time.sleep(0.05)
            members = _session(pid)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    # An impatient second Ctrl-C must not leave half of the processes behind.
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
