"""The main job, whole: a real broker, a real application, real Spark jobs, a running Airflow. And again after it was killed in the middle."""

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

PROJECT = Path(__file__).resolve().parents[2]
CHECKS = (
    "state_equal",
    "changelogs_equal",
    "incremental",
    "tail_and_suppress_covered",
    "offset_metadata_equal",
    "continued_correctly",
)
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]


def demo(guarantee: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    command = [sys.executable, "-m", "embedded", "demo", "--guarantee", guarantee]
    return subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True)


def told(running: subprocess.Popen[str], until: str | None = None) -> bool:
    """Pass on what the demonstration says, up to the line with ``until``. False when it ended before."""
    assert running.stdout is not None
    for line in running.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        if until is not None and until in line:
            return True
    return False


def left() -> list[int]:
    """Processes that work in the demonstration's directory."""
    place = str(PROJECT / "build" / "demo")
    return [p.pid for p in psutil.process_iter(["cmdline"]) if place in " ".join(p.info["cmdline"] or [])]


def check_whole_run(guarantee: str) -> None:
    (PROJECT / "build" / "demo" / "report.json").unlink(missing_ok=True)
    running = demo(guarantee)
    told(running)
    assert running.wait(60) == 0
    report = json.loads((PROJECT / "build" / "demo" / "report.json").read_text())
    assert {name: report[name] for name in CHECKS} == dict.fromkeys(CHECKS, True)
    assert report["guarantee"] == guarantee
    assert report["keys_compared"] > 0
    assert all(count > 0 for count in report["records_copied"])
    assert report["rpo_seconds"] == 0
    assert left() == []


def test_ctrl_c_leaves_nothing_behind() -> None:
    running = demo("at_least_once")
    assert told(running, until="1. Kafka")
    for _ in range(600):
        if len(left()) > 2:
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    told(running)
    assert running.wait(120) == 130
    assert left() == []


@pytest.mark.parametrize(
    ("guarantee", "moment"),
    [
        ("exactly_once_v2", "copy_records: running"),
        pytest.param("exactly_once_v2", "capture_cut: running", marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", "3. ", marks=pytest.mark.slow),
        pytest.param("at_least_once", "4. ", marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", "load_records: running", marks=pytest.mark.slow),
        pytest.param("at_least_once", "reset_consumer_group: running", marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", "await_recovered: running", marks=pytest.mark.slow),
    ],
)
def test_killed_without_warning_and_run_again(guarantee: str, moment: str) -> None:
    running = demo(guarantee)
    assert told(running, until=moment)
    running.kill()
    running.wait()
    assert left() != []
    check_whole_run(guarantee)


def test_application_loses_everything_and_comes_back_at_least_once() -> None:
    check_whole_run("at_least_once")
