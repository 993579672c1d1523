"""Real processes, as long-lived as a test: what is started is stopped, also by the next one who comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from embedded.processes import Processes
from streams_recovery.core.errors import ApplicationNotReady
from tests.support.project import PROJECT

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A child with a child of its own, both deaf to SIGTERM.
DEAF_FAMILY = [
    sys.executable,
    "-c",
    "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN);"
    "subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)']); time.sleep(60)",
]
DRIVER = """
import sys, time
from pathlib import Path
from embedded.processes import Processes
with Processes(Path(sys.argv[1])) as processes:
    processes.start("child", [sys.executable, "-c", "import time; time.sleep(60)"])
    print("started", flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def recorded(directory: Path) -> int:
    return int(json.loads((directory / "processes.json").read_text())["child"][0])


def driver(directory: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    started = subprocess.Popen([sys.executable, "-c", DRIVER, str(directory)], stdout=subprocess.PIPE, text=True, env=environment)
    assert started.stdout is not None
    assert started.stdout.readline() == "started\n"
    return started


def test_everything_is_stopped_at_the_end_of_the_block(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("child", SLEEP)
        pid = recorded(tmp_path)
        assert alive(pid)
    assert not alive(pid)
    assert processes.recorded() == {}


def test_an_exception_stops_everything_too(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Processes(tmp_path) as processes:
        processes.start("child", SLEEP)
        pid = recorded(tmp_path)
        raise RuntimeError
    assert not alive(pid)


def test_interrupted_driver_leaves_nothing(tmp_path: Path) -> None:
    running = driver(tmp_path)
    pid = recorded(tmp_path)
    running.send_signal(signal.SIGINT)
    running.wait(30)
    assert not alive(pid)


def test_what_a_killed_driver_left_is_stopped_by_the_next(tmp_path: Path) -> None:
    running = driver(tmp_path)
    pid = recorded(tmp_path)
    running.kill()
    running.wait()
    assert alive(pid)
    with Processes(tmp_path):
        assert not alive(pid)


def test_a_pid_that_another_process_has_now_is_left_alone(tmp_path: Path) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        (tmp_path / "processes.json").write_text(json.dumps({"child": [stranger.pid, 1.0]}))
        with Processes(tmp_path):
            time.sleep(0.2)
            assert stranger.poll() is None
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()


def test_children_of_children_go_too_and_those_deaf_to_sigterm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded.processes._TERM_SECONDS", 0.5)
    with Processes(tmp_path) as processes:
        processes.start("child", DEAF_FAMILY)
        leader = psutil.Process(recorded(tmp_path))
        while not leader.children():
            time.sleep(0.05)
        family = [leader.pid, leader.children()[0].pid]
        time.sleep(0.3)
    assert [pid for pid in family if alive(pid)] == []


def test_a_process_that_ended_is_reported_with_its_log(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("child", [sys.executable, "-c", "print('no such disk'); raise SystemExit(3)"])
        time.sleep(0.5)
        with pytest.raises(ApplicationNotReady, match="no such disk") as caught:
            for _ in range(50):
                processes.check("child")
                time.sleep(0.1)
        assert caught.value.facts == {"process": "child", "status": 3}
