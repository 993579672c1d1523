"""The main job, whole: a real broker, a real application, real Spark jobs, a running Airflow. And again after it was killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.project import PROJECT

CHECKS = (
    "state_equal",
    "changelogs_equal",
    "incremental",
    "tail_and_suppress_covered",
    "offset_metadata_equal",
    "continued_correctly",
)
# Where transactions have names.
NAMED_CHECKS = ("held_nothing", "outputs_behind_listed", "outputs_right_without_listed", "outputs_right_after_loss_of_cluster")
# It ends before its test does.
LIMIT_SECONDS = {"all": 4_000}
LIMIT_OF_ONE_SECONDS = 1_500
# A tenth of what a person is shown: enough for keys that come again, and for orders that come in during a savepoint.
ORDERS = 20_000
pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(1800)]


def demo(guarantee: str, strategy: str = "full", spark: str = "local") -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    command = [sys.executable, "-m", "embedded", "demo", "--guarantee", guarantee, "--strategy", strategy, "--spark", spark]
    # How long it takes is a matter of the machine, and told; whether it recovers is the test. Whoever plays it by hand has the usual limit.
    command += ["--limit", str(LIMIT_SECONDS.get(strategy, LIMIT_OF_ONE_SECONDS)), "--orders", str(ORDERS)]
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


def check_whole_run(guarantee: str, spark: str = "local") -> None:
    (PROJECT / "build" / "demo" / "report.json").unlink(missing_ok=True)
    running = demo(guarantee, spark=spark)
    told(running)
    assert running.wait(60) == 0
    report = json.loads((PROJECT / "build" / "demo" / "report.json").read_text())
    named = NAMED_CHECKS if guarantee == "exactly_once_v2" else ()
    checks = [*CHECKS, *named, *(["every_worker_loaded"] if spark == "cluster" else [])]
    assert {name: report[name] for name in checks} == dict.fromkeys(checks, True)
    assert report["guarantee"] == guarantee
    assert report["keys_compared"] > 0
    assert all(count > 0 for count in report["records_copied"])
    assert report["rpo_seconds"] == 0
    assert left() == []


def test_on_a_cluster_of_spark_every_worker_loads() -> None:
    check_whole_run("exactly_once_v2", spark="cluster")


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


# Each run meets what the one before it left, and gets further. The state of a step is not waited for: a quick one is never seen running.
KILLED = {
    "first_savepoint": [("full", "copy_records: ")],
    "undo": [
        ("undo", "capture_cut: "),
        ("undo", "3. Somebody; load_records: "),
        ("undo", "3. Somebody; reset_consumer_group: "),
        ("undo", "3. Somebody; await_recovered: "),
        ("undo", "4. The undo; load_records: "),
    ],
    "full": [("full", "3. "), ("full", "4. "), ("full", "5. The restore; load_records: ")],
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("moments", KILLED.values(), ids=KILLED)
def test_killed_without_warning_and_run_again(moments: list[tuple[str, str]]) -> None:
    for strategy, moment in moments:
        running = demo("exactly_once_v2", strategy)
        assert all(told(running, until=line) for line in moment.split("; "))
        running.kill()
        running.wait()
        assert left() != []
    check_whole_run("exactly_once_v2")


# The other guarantee is demonstrated each time, after a kill; what differs between them, the cut, is tried for both in test_cut_under_load.py.
@pytest.mark.fault("F50")
def test_application_loses_everything_and_comes_back_at_least_once() -> None:
    check_whole_run("at_least_once")


def test_a_mistake_is_undone() -> None:
    running = demo("exactly_once_v2", "undo")
    told(running)
    assert running.wait(60) == 0
    report = json.loads((PROJECT / "build" / "demo" / "report.json").read_text())
    checks = {name: value for name, value in report.items() if isinstance(value, bool)}
    assert checks == dict.fromkeys(("mistake_lost_orders", "mistake_undone", "continued_correctly"), True)
    assert (report["strategy"], report["keys_that_were_wrong"] > 0) == ("undo", True)
    assert left() == []


@pytest.mark.fault("F50")
@pytest.mark.timeout(4500)
def test_every_strategy_is_played_on_one_stack() -> None:
    (PROJECT / "build" / "demo" / "report.json").unlink(missing_ok=True)
    running = demo("exactly_once_v2", "all")
    told(running)
    assert running.wait(60) == 0
    reports = json.loads((PROJECT / "build" / "demo" / "report.json").read_text())["strategies"]
    assert {report["strategy"] for report in reports} == {"full", "undo", "rebuild", "run", "pitr", "reprocess", "clone"}
    for report in reports:
        checks = {name: value for name, value in report.items() if isinstance(value, bool)}
        assert len(checks) >= 3, report["strategy"]
        assert set(checks.values()) == {True}, checks
    assert left() == []
