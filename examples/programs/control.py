#!/usr/bin/env python3
"""The programs of `runs.kind: command`, for a unit of systemd (UNIT) or for one process (PROGRAM). Python 3.9 or newer, and nothing else.

Gone is proven by systemd, or by a lock that the process inherits and the system takes away with its end; never by a pid, which another process may have by now.
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
import uuid
from pathlib import Path
from typing import Any

UNIT = os.environ.get("UNIT", "")
RECORDS, STATE = Path(os.environ["RECORDS"]), Path(os.environ["STATE"]) / os.environ["APPLICATION_ID"]
LOCK, RUN, GROUP, ENDED, ASKED = (RECORDS / name for name in ("lock", "run", "group", "ended", "asked"))


def unit(fact: str) -> str:
    """A property of the unit."""
    return subprocess.run(
        ["systemctl", "show", UNIT, "--property", fact, "--value"], check=True, capture_output=True, text=True
    ).stdout.strip()


def text(record: Path) -> str:
    """What is written down there."""
    return record.read_text() if record.exists() else ""


def run() -> str:
    """The id of the last run, empty where none is known."""
    return unit("InvocationID") if UNIT else text(RUN)


def up() -> bool:
    """True until nothing of the application is alive."""
    if UNIT:
        return unit("ActiveState") not in ("inactive", "failed")
    with LOCK.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def status() -> list[dict[str, Any]]:
    """Every instance there is meant to be, gone ones included."""
    asked, how, clean = [*text(ASKED).split(), "", "", ""][:3]
    # A unit that ended well is forgotten by systemd after a while: then the note of the stop speaks for it.
    this = (run() or (asked if UNIT else "")) == asked != ""
    one = {"name": "only", "streams_state": None, "silent": True, "detail": f"{UNIT or 'process group'} {how}"}
    if up():
        return [{**one, "state": "running", "closed_cleanly": None, "detail": UNIT or f"process group {text(GROUP)}"}]
    return [{**one, "state": "gone", "closed_cleanly": this and clean == "clean", **({"stopped_here": this} if run() or this else {})}]


def start() -> None:
    """Start it, unless it runs, and return at once."""
    if UNIT:
        subprocess.run(["systemctl", "start", "--no-block", UNIT], check=True)
        return
    with LOCK.open("a") as lock, (RECORDS / "log").open("ab") as log:
        for _ in range(20):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A status has it for a moment only.
                time.sleep(0.1)
        else:
            return
        GROUP.unlink(missing_ok=True)
        RUN.write_text(uuid.uuid4().hex)
        words = [sys.executable, __file__, "attend", str(lock.fileno())]
        subprocess.Popen(words, pass_fds=[lock.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def attend(lock: int) -> None:
    """Run the program, and write down how it ended. It and all that it starts hold the lock."""
    # It outlives the SIGTERM that the whole group gets. The program does not inherit this.
    signal.signal(signal.SIGTERM, lambda *_: None)
    GROUP.write_text(str(os.getpid()))
    ended = subprocess.Popen(json.loads(os.environ["PROGRAM"]), pass_fds=[lock]).wait()
    ENDED.write_text(f"{run()} {128 - ended if ended < 0 else ended}")


def end(number: int) -> None:
    """Signal all of the process group. It is its own as long as the lock is held."""
    if up():
        os.killpg(int(text(GROUP)), number)


def stop() -> list[dict[str, Any]]:
    """End it: cleanly if it lets us, else by force when the time is up. A unit has TimeoutStopSec."""
    if up():
        ASKED.write_text(f"{run()} asked not-clean")
        if UNIT:
            subprocess.run(["systemctl", "stop", UNIT], check=True)
            ASKED.write_text(
                f"{run() or text(ASKED).split()[0]} {unit('Result')} {'clean' if unit('Result') == 'success' else 'not-clean'}"
            )
            return status()
        deadline = time.monotonic() + float(os.environ["STOP_TIMEOUT_SECONDS"])
        while not text(GROUP):
            time.sleep(0.1)
        end(signal.SIGTERM)
        while up() and time.monotonic() < deadline:
            time.sleep(0.2)
        end(signal.SIGKILL)
        while up():
            time.sleep(0.2)
        clean = text(ENDED) in (f"{run()} 0", f"{run()} 143")
        ASKED.write_text(f"{run()} {text(ENDED).split()[-1] if text(ENDED) else 'unseen'} {'clean' if clean else 'not-clean'}")
    return status()


def wipe() -> dict[str, list[str]]:
    """Remove the local state, and look whether it is gone."""
    if up():
        sys.exit(3)
    there = [str(STATE)] if STATE.exists() else []
    shutil.rmtree(STATE, ignore_errors=True)
    return {"removed": there, "remaining": [str(STATE)] if STATE.exists() else []}


if __name__ == "__main__":
    RECORDS.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "attend":
        attend(int(sys.argv[2]))
    elif sys.argv[1] == "start":
        start()
    else:
        json.dump({"status": status, "stop": stop, "wipe": wipe}[sys.argv[1]](), sys.stdout)
