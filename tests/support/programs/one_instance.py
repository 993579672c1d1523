"""Runs one instance of a program for ``runs.kind: command``. Arguments: a directory, the verb, the directory of its state, and the program's command."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path


def _pid(place: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        pid = int((place / "pid").read_text())
        if "zombie" not in Path(f"/proc/{pid}/status").read_text():
            return pid
    return None


def _say_states(pid: int | None) -> None:
    there = pid is not None
    state = {"name": "one", "state": "running" if there else "gone", "streams_state": "RUNNING" if there else None}
    sys.stdout.write(json.dumps([state | {"closed_cleanly": None if there else True, "detail": f"pid {pid}"}]))


def main(place: Path, verb: str, state: Path, *command: str) -> None:
    """Do what the verb says."""
    pid = _pid(place)
    if verb == "start" and pid is None:
        place.mkdir(parents=True, exist_ok=True)
        with (place / "log").open("ab") as log:
            started = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        (place / "pid").write_text(str(started.pid))
    elif verb == "stop":
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
        while _pid(place) is not None:
            time.sleep(0.1)
        _say_states(None)
    elif verb == "wipe":
        shutil.rmtree(state, ignore_errors=True)
        sys.stdout.write(json.dumps({"removed": [str(state)], "remaining": []}))
    elif verb == "status":
        _say_states(pid)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
