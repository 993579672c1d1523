"""What only processes on this machine can do to who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from streams_recovery.application import instance_record
from streams_recovery.application.instance_record import Process, birth
from streams_recovery.core.errors import (
    ApplicationNotReady,
    ApplicationRunning,
)
from tests.support.applications.rig import PROGRAM, wait
from tests.support.applications.states import GONE, RUNNING, UNKNOWN, clean, started, states


def test_a_pid_that_was_given_to_somebody_else_is_neither_running_nor_signalled(local):
    one = local()
    application = started(one)
    application.stop(timeout=10)
    # Alive for as long as the test may take, and ended by it.
    somebody = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        files = one.files("one")
        files.write(replace(files.started(), run="later", process=Process(pid=somebody.pid, born=one.process("one").born)))
        first = application.status()[0]
        assert (first.state, first.closed_cleanly) == (GONE, False)
        application.stop(timeout=1)
        assert somebody.poll() is None
        assert birth(somebody.pid) is not None
    finally:
        somebody.kill()
        somebody.wait()


def test_a_record_from_another_machine_is_unknown_and_left_alone(local):
    one = local()
    application = started(one)
    application.stop(timeout=10)
    files = one.files("one")
    run = files.started()
    files.write(replace(run, run="elsewhere", place=replace(run.place, host="elsewhere", boot="another-boot")))
    assert states(application) == [UNKNOWN, GONE]
    application.start()
    assert files.started().run == "elsewhere"
    assert application.stop(timeout=1).instances[0].state is UNKNOWN
    with pytest.raises(ApplicationRunning, match="elsewhere"):
        application.wipe_state()


def test_a_child_that_outlives_its_parent_is_running(local):
    one = local()
    # A wrapper that does not exec: killing it leaves the real program behind.
    one.section["command"] = ["sh", "-c", f"{sys.executable} {PROGRAM} & wait"]
    application = started(one)
    one.kill("one")
    first = application.status()[0]
    assert first.state is RUNNING
    assert "left" in first.detail
    report = application.stop(timeout=10)
    assert report.gone
    wait(lambda: not one.leftovers())


def test_a_close_that_left_something_behind_is_not_clean(local):
    one = local(environment={"ON_TERM": "ignore"})
    one.section["command"] = ["sh", "-c", f"trap 'exit 0' TERM; {sys.executable} {PROGRAM} & wait"]
    report = started(one).stop(timeout=1)
    assert report.gone
    assert clean(report) == [False, False]
    assert "exit status 0" in report.instances[0].detail


def test_an_instance_that_is_being_started_is_not_gone(local):
    one = local()
    application = one.open()
    files = one.files("one")
    with instance_record.held(files.lock, seconds=1):
        assert states(application) == [RUNNING, GONE]
    assert states(application) == [GONE, GONE]


def test_an_instance_that_is_not_on_record_is_not_gone(local):
    one = local()
    application = started(one)
    (one.files("one").home / "started.json").unlink()
    first = application.status()[0]
    assert first.state is RUNNING
    with pytest.raises(ApplicationRunning, match="not on record"):
        application.wipe_state()


def test_two_calls_that_stop_and_start_wait_for_each_other(local):
    one = local(start_timeout=1)
    application = one.open()
    with instance_record.held(one.files("two").lock, seconds=1), pytest.raises(ApplicationNotReady, match="another call"):
        application.start()


def test_the_environment_is_in_no_argument_list(local):
    one = local(environment={"PASSWORD": "rosebud"})
    started(one)
    for process in one.leftovers():
        assert "rosebud" not in " ".join(process.cmdline())
    assert not any("rosebud" in file.read_text(errors="replace") for file in (one.directory / "run").rglob("*") if file.is_file())


def test_sigterm_may_be_blocked_or_ignored_by_the_caller(local):
    one = local()
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        application = started(one)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, before)
    assert application.stop(timeout=10).clean


@pytest.mark.deep
def test_a_hanging_instance_costs_its_time_out_once(local):
    one = local()
    application = started(one)
    for name in ("one", "two"):
        os.kill(one.process(name).pid, signal.SIGSTOP)
    assert [s.streams_state for s in application.status()] == [None, None]
    report = application.stop(timeout=0.5)
    assert report.gone
    assert not report.clean
