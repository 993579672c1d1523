#!/usr/bin/env python3
"""The programs of `runs.kind: command`, for an application that is one process on this machine. Copy it, and change what is not as yours is.

    runs:
      kind: command
      command:
        status: [/opt/orders/control.py, status]
        stop: [/opt/orders/control.py, stop]
        start: [/opt/orders/control.py, start]
        wipe: [/opt/orders/control.py, wipe]
        environment:
          RECORDS: /var/lib/orders/records                    # this program's own notes, and the log
          STATE: /var/lib/orders/state                        # state.dir
          PROGRAM: '["java", "-jar", "/opt/orders/orders.jar"]'
          HEALTH: http://127.0.0.1:8080/health                # leave it out where nothing answers {"state": ...}

Whatever a restore proves rests on two answers: *gone* and *wiped*. Gone is proven by a lock that the process inherits and the system takes away with its end,
not by a number in a file, which another process may have by now. Python 3.9 or newer, and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

NAME = "only"
RECORDS, STATE = Path(os.environ["RECORDS"]), Path(os.environ["STATE"]) / os.environ["APPLICATION_ID"]
LOCK, RUN, ASKED, ENDED = (RECORDS / name for name in ("lock", "run.json", "asked.json", "ended.json"))
REFUSED = 3
# How Java ends on SIGTERM.
CLEAN = (0, 128 + signal.SIGTERM)


def held() -> bool:
    """True while a process of the application is alive: it has inherited the lock."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def status() -> list[dict[str, Any]]:
    """Every instance there is meant to be, gone ones included."""
    run = read(RUN)
    if held():
        return [
            {
                "name": NAME,
                "state": "running",
                "streams_state": streams_state(),
                "closed_cleanly": None,
                "detail": f"process group {run.get('group')}",
            }
        ]
    # Only what this program has asked to end, and what then ended by itself, has closed cleanly: records of another run count for nothing.
    asked, ended = (bool(run) and read(record).get("run") == run.get("run") for record in (ASKED, ENDED))
    clean = asked and ended and read(ENDED)["status"] in CLEAN
    detail = f"ended with status {read(ENDED)['status']}" if ended else "its end is not on record" if run else "never started here"
    gone = {"name": NAME, "state": "gone", "streams_state": None, "closed_cleanly": clean, "detail": detail}
    return [{**gone, "stopped_here": asked} if run else gone]


def streams_state() -> str | None:
    """What the application says of itself. Where it says nothing, a process that runs has to do: a restore then waits for its input alone."""
    if "HEALTH" not in os.environ:
        return "RUNNING"
    try:
        with urllib.request.urlopen(os.environ["HEALTH"], timeout=3) as answer:  # noqa: S310  # whoever configures this starts programs with it
            return str(json.load(answer)["state"])
    except (OSError, ValueError, KeyError):
        return None


def start() -> None:
    """Start it, unless it runs, and return at once."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(20):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            # A status has it for a moment only.
            time.sleep(0.1)
    else:
        return
    RUN.unlink(missing_ok=True)
    with (RECORDS / "log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, __file__, "attend", str(lock)],
            pass_fds=(lock,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def attend(lock: int) -> None:
    """Run the program, and write down how it ended. It and all that it starts hold the lock."""
    # It outlives the SIGTERM that the whole group gets. The program does not inherit this.
    signal.signal(signal.SIGTERM, lambda *_: None)
    this = uuid.uuid4().hex
    write(RUN, {"run": this, "group": os.getpid()})
    ended = subprocess.Popen(json.loads(os.environ["PROGRAM"]), pass_fds=(lock,)).wait()
    write(ENDED, {"run": this, "status": 128 - ended if ended < 0 else ended})


def stop() -> list[dict[str, Any]]:
    """End it: cleanly if it lets us, else by force when the time is up."""
    deadline = time.monotonic() + float(os.environ.get("STOP_TIMEOUT_SECONDS", "60"))
    while held() and not RUN.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    if held():
        run = read(RUN)
        write(ASKED, {"run": run["run"]})
        # Its group is still its own as long as the lock is held.
        os.killpg(run["group"], signal.SIGTERM)
        while held() and time.monotonic() < deadline:
            time.sleep(0.2)
        if held():
            os.killpg(run["group"], signal.SIGKILL)
            while held():
                time.sleep(0.2)
    return status()


def wipe() -> dict[str, list[str]]:
    """Remove the local state, and look whether it is gone."""
    if held():
        sys.stderr.write("it runs: stop it first\n")
        sys.exit(REFUSED)
    there = STATE.exists()
    if there:
        shutil.rmtree(STATE)
    return {"removed": [str(STATE)] if there else [], "remaining": [str(STATE)] if STATE.exists() else []}


def read(record: Path) -> dict[str, Any]:
    """What is written down there, nothing where nothing is."""
    found: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
    return found


def write(record: Path, what: dict[str, Any]) -> None:
    """Whole or not at all."""
    beside = record.with_suffix(".new")
    beside.write_text(json.dumps(what))
    beside.replace(record)


def main() -> None:
    """Do what the argument says."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    verb = sys.argv[1]
    if verb == "attend":
        attend(int(sys.argv[2]))
    elif verb == "start":
        start()
    else:
        json.dump({"status": status, "stop": stop, "wipe": wipe}[verb](), sys.stdout)


if __name__ == "__main__":
    main()
