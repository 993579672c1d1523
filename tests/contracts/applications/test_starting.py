"""Starting: once, with an environment of its own, and outliving whoever did it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streams_recovery.core.errors import (
    PermanentError,
)
from tests.support.applications.rig import APPLICATION_ID, PLUGINS, PROGRAM, wait
from tests.support.applications.states import GONE, RUNNING, clean, started, states
from tests.support.project import PROJECT


def test_start_leaves_running_instances_alone(rig):
    one = rig()
    application = started(one)
    before = one.process("one"), one.process("two")
    application.start()
    assert (one.process("one"), one.process("two")) == before
    one.kill("one")
    application.start()
    one.await_up()
    assert one.process("two") == before[1]
    assert one.process("one") != before[0]
    assert states(application) == [RUNNING, RUNNING]


@pytest.mark.deep
def test_an_old_end_says_nothing_about_a_new_run(rig):
    one = rig()
    application = started(one)
    assert application.stop(timeout=10).clean
    application.start()
    one.await_up()
    assert [s.closed_cleanly for s in application.status()] == [None, None]
    one.kill_witness("one")
    one.kill("one")
    assert clean(application.stop(timeout=10)) == [False, True]


def test_starting_twice_at_once_starts_once(rig):
    one = rig()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: one.open().start(), range(4)))
    one.await_up()
    programs = [p for p in one.leftovers() if p.cmdline()[-1].endswith(PROGRAM.name)]
    assert len(programs) == 2


def test_nothing_of_the_caller_is_in_the_environment(rig, monkeypatch):
    for name in (
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW_CONN_AWS_DEFAULT",
        "AWS_SECRET_ACCESS_KEY",
        "PYTHONHOME",
        "SOME_SECRET",
        "LD_PRELOAD_X",
    ):
        monkeypatch.setenv(name, "leaked")
    monkeypatch.setenv("LANG", "C.UTF-8")
    one = rig(per_instance=[{"MINE": "{name}"}])
    application = one.open()
    application.start({"OVERLAY_ID": "scratch"})
    one.await_up()
    found = one.get(0, "/environment")
    allowed = {
        "PATH",
        "HOME",
        "JAVA_HOME",
        "LANG",
        "TMPDIR",
        "PORT",
        "STATE_DIR",
        "APPLICATION_ID",
        "MINE",
        "OVERLAY_ID",
        "LC_CTYPE",
        "UNTIL",
    }
    assert set(found) <= allowed
    assert (found["MINE"], found["OVERLAY_ID"], found["LANG"]) == ("one", "scratch", "C.UTF-8")
    for supervisor in [one.files(name).started().supervisor for name in ("one", "two")]:
        assert "leaked" not in Path(f"/proc/{supervisor.pid}/environ").read_text() if sys.platform == "linux" else True


@pytest.mark.deep
def test_instances_outlive_whoever_started_them(rig):
    one = rig()
    script = (
        "import json, os, signal, sys\n"
        "from tests.support.applications.verbs import open_application, Runs\n"
        f"open_application(Runs.model_validate(json.load(sys.stdin)), {APPLICATION_ID!r}).start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{PLUGINS}:{PROJECT}"},
        start_new_session=True,
    )
    caller.communicate(json.dumps(one.runs()).encode(), timeout=60)
    assert caller.returncode == -signal.SIGKILL
    one.await_up()
    application = one.open()
    assert states(application) == [RUNNING, RUNNING]
    assert application.stop(timeout=10).clean


@pytest.mark.deep
def test_a_program_that_cannot_be_started_is_said_so(rig):
    one = rig()
    one.section["command"] = ["/no/such/program"]
    with pytest.raises(PermanentError, match="no/such/program"):
        one.open().start()
    assert states(one.open()) == [GONE, GONE]


@pytest.mark.deep
def test_a_program_that_ends_at_once_is_gone_and_not_clean(rig):
    one = rig()
    one.section["command"] = [sys.executable, "-c", "raise SystemExit(0)"]
    application = one.open()
    application.start()
    wait(lambda: states(application) == [GONE, GONE])
    assert not application.stop(timeout=5).clean
