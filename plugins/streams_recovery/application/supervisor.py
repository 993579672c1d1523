"""The process that starts an instance and stays with it, to see how it ends.

    python -m streams_recovery.application.supervisor < ORDER

An orchestrator's task starts this and is gone long before the instance ends, and only a parent learns an exit status. The order comes on
standard input because it holds the instance's environment: an argument list is for everybody to read. The supervisor leaves the
parent it was started from, starts the instance in a session of its own, records that it did, passes SIGTERM on to the whole session,
and records the end when nothing of that session is left. If the supervisor itself is killed, the instance goes on and its end is not seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from streams_recovery.application.instance_record import Ended, InstanceFiles, Place, Process, Started, birth, session_of
from streams_recovery.core import codec

STARTED = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The program to start, and the files to write about it. ``lock`` is an inherited file descriptor that is held until the start is on record."""

    run: str
    name: str
    directory: str
    command: tuple[str, ...]
    working_directory: str
    environment: dict[str, str]
    lock: int


def main() -> int:
    """Fork the supervisor proper, wait until it has started the instance, and print ``started`` or why it could not."""
    order = codec.loads(Order, sys.stdin.buffer.read(), where="the order")
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _Supervisor(order, writing).work()
        return 0
    os.close(writing)
    with os.fdopen(reading) as answers:
        answer = answers.read()
    sys.stdout.write(answer)
    return 0 if answer == STARTED else 1


class _Supervisor:
    """``answers`` is the pipe to the process that waits for the start."""

    def __init__(self, order: Order, answers: int) -> None:
        self._order = order
        self._answers = answers
        self._files = InstanceFiles(Path(order.directory), order.name)
        self._child: subprocess.Popen[bytes] | None = None
        self._asked = False
        self._over = False

    def work(self) -> None:
        """Start, record, wait, record."""
        self._detach()
        try:
            self._child = self._launch()
            process = self._put_on_record(self._child.pid)
        except OSError as error:
            self._abandon()
            os.close(self._order.lock)
            self._answer(str(error))
            return
        os.close(self._order.lock)
        self._answer(STARTED)
        # A SIGTERM that came before the instance was known was only noted.
        if self._asked:
            self._pass_on()
        self._see_the_end(self._child, process)

    def _detach(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        with _appending(self._files.supervisor_log) as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        # A handler, not SIG_IGN: an ignored signal stays ignored in the instance, a handled one does not. Nor may a blocked signal pass down.
        signal.signal(signal.SIGTERM, self._on_sigterm)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _launch(self) -> subprocess.Popen[bytes]:
        with _appending(self._files.log) as log, _appending(self._files.alive) as alive:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return subprocess.Popen(
                self._order.command,
                cwd=self._order.working_directory,
                env=self._order.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(alive.fileno(),),
            )

    def _put_on_record(self, pid: int) -> Process:
        process = Process(pid=pid, born=birth(pid) or "ended at once")
        now = time.time_ns() // 1_000_000
        self._files.write(Started(run=self._order.run, place=Place.here(), supervisor=Process.current(), process=process, at=now))
        return process

    def _abandon(self) -> None:
        # An instance that is not on record could not be found again.
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()

    def _answer(self, text: str) -> None:
        # The waiting process may have been killed meanwhile; the instance is on record all the same.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answers, text.encode())
        os.close(self._answers)

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        self._pass_on()

    def _pass_on(self) -> None:
        # Until it is reaped, the child's pid, which is also the number of its group, belongs to no other process.
        if self._child is not None and not self._over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGTERM)

    def _see_the_end(self, child: subprocess.Popen[bytes], process: Process) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        else:
            child.wait()
        left = session_of(process)
        while session_of(process):
            time.sleep(0.1)
        # Before the child is reaped: after that its pid, and a signal to it, may be another one's.
        self._over = True
        status = child.wait()
        stop_request = self._files.stop_request(self._order.run)
        now = time.time_ns() // 1_000_000
        self._files.write(Ended(run=self._order.run, status=status, left_behind=len(left), stop_request=stop_request, at=now))


def _appending(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


if __name__ == "__main__":
    sys.exit(main())
