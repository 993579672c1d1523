"""`streams-recovery` as a process of its own, to be stopped, killed and woken at a moment of the test's choice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from embedded.stack import APPLICATION, PROJECT
from tests.support.stack.stage import Stage

_SECONDS = 600.0
# How long it may run between two looks, and so how far past the moment that is waited for.
_SLICE_SECONDS = 0.002
_NEAR_SECONDS = 0.05


class Command:
    """One command, leader of a process group of its own. What it starts besides (jobs, instances) has sessions of their own."""

    def __init__(self, on: Stage, *arguments: str, **variables: str) -> None:
        place = on.stack.directory / "commands" / f"{time.monotonic_ns()}"
        (place / "temporary").mkdir(parents=True)
        self.temporary, self._out, self._err = place / "temporary", place / "out", place / "err"
        environment = {**on.stack.environment, "COLUMNS": "1000", "TMPDIR": str(self.temporary), **variables}
        verb, rest = arguments[0], arguments[1:]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streams_recovery", verb, APPLICATION, *rest],
                env=environment,
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    @property
    def out(self) -> str:
        """Its results."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """What it told people."""
        return self._err.read_text()

    def result(self, seconds: float = _SECONDS) -> Any:
        """Its JSON, once it has succeeded."""
        assert self.wait(seconds) == 0, self.err
        return json.loads(self.out)

    def wait(self, seconds: float = _SECONDS) -> int:
        """Its exit code; negative for the signal that ended it."""
        return self._process.wait(seconds)

    def refused(self, code: int) -> str:
        """What it said when it ended with this code: one sentence that ends with what to do. Commands to run next stand below it."""
        assert self.wait() == code, self.err
        last = next((line for line in reversed(self.err.splitlines()) if "Next: " in line), None)
        assert last is not None, self.err
        assert "Traceback" not in self.err
        return last

    def signal(self, number: signal.Signals) -> None:
        """To the whole group."""
        os.killpg(self.pid, number)

    def stop_when(self, due: Callable[[], bool], *, near: Callable[[], bool] = lambda: True) -> bool:
        """From ``near`` on, let it run in slices, look while it stands still, and leave it standing at the first look that finds ``due``. False when it
        has succeeded before: a busy machine lets it run on.
        """
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline and not near():
            assert self._process.poll() is None, f"it ended first: {self.err}"
            time.sleep(_NEAR_SECONDS)
        while time.monotonic() < deadline:
            self.signal(signal.SIGSTOP)
            if self._process.poll() is not None:
                assert self._process.returncode == 0, self.err
                return False
            if due():
                return True
            self.signal(signal.SIGCONT)
            time.sleep(_SLICE_SECONDS)
        raise AssertionError(f"the moment did not come: {self.err}")

    def kill_when(self, due: Callable[[], bool], *, near: Callable[[], bool]) -> bool:
        """SIGKILL at that moment."""
        caught = self.stop_when(due, near=near)
        if caught:
            self.signal(signal.SIGKILL)
            assert self.wait() == -signal.SIGKILL
        return caught


def jobs_of(on: Stage) -> list[int]:
    """Processes of Spark jobs that work on the stage's repository."""
    place, found = str(on.stack.directory), []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if any("SparkSubmit" in part or part.endswith(("backup.py", "spark_jobs.backup")) for part in line) and place in " ".join(line):
            found.append(process.pid)
    return found


def files_below(directory: Path) -> dict[str, int]:
    """Every file with its size."""
    return {str(path.relative_to(directory)): path.stat().st_size for path in directory.rglob("*") if path.is_file()}
