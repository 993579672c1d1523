"""Stopping, and who is told to have closed cleanly: what every way of running an application must do, tried on real processes."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support.applications.rig import wait
from tests.support.applications.states import GONE, RUNNING, clean, started, states

# What each way of running an application says of one that had to be killed; 137 is a container's exit code for it.
KILLED = {"process": "SIGKILL", "command": "SIGKILL", "docker": "137", "kubernetes": "137"}


def test_never_started_is_gone_and_not_clean(rig):
    application = rig().open()
    assert states(application) == [GONE, GONE]
    report = application.stop(timeout=5)
    assert (report.gone, report.clean) == (True, False)


def test_stop_is_witnessed_as_clean_and_stays_so(any_rig):
    one = any_rig()
    application = started(one)
    assert [(s.name, s.state, s.streams_state, s.closed_cleanly) for s in application.status()] == [
        (one.names[0], RUNNING, "RUNNING", None),
        (one.names[1], RUNNING, "RUNNING", None),
    ]
    assert application.stop(timeout=10).clean
    wait(lambda: not one.leftovers())
    again = application.stop(timeout=10)
    assert again.clean
    assert "exit status 143" in again.instances[0].detail


@pytest.mark.deep
def test_exit_status_zero_after_a_request_is_clean(rig):
    one = rig(environment={"ON_TERM": "0"})
    assert started(one).stop(timeout=10).clean


def test_exit_status_of_a_failure_is_not_clean(any_rig):
    one = any_rig(per_instance=[{"ON_TERM": "1"}])
    report = started(one).stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]


def test_a_killed_instance_is_not_clean(any_rig):
    one = any_rig()
    application = started(one)
    one.kill(one.names[0])
    first, second = application.status()
    # The kubelet starts a container again that ended by itself, so its pod is not gone.
    expected = (RUNNING, None) if one.kind == "kubernetes" else (GONE, False)
    assert (first.state, first.closed_cleanly, second.state) == (*expected, RUNNING)
    assert clean(application.stop(timeout=10)) == [False, True]


@pytest.mark.deep
def test_an_end_that_nobody_asked_for_is_not_clean(rig):
    one = rig(environment={"ON_TERM": "0"})
    application = started(one)
    one.kill("one", signal.SIGTERM)
    assert clean(application.stop(timeout=10)) == [False, True]


@pytest.mark.deep
def test_who_ignores_sigterm_is_killed_and_not_clean(any_rig):
    one = any_rig(per_instance=[{"ON_TERM": "ignore"}])
    application = started(one)
    began = time.monotonic()
    report = application.stop(timeout=1)
    assert time.monotonic() - began >= 1
    assert report.gone
    assert clean(report) == [False, True]
    assert KILLED[one.kind] in report.instances[0].detail
    wait(lambda: not one.leftovers())


@pytest.mark.deep
@pytest.mark.fault("F41")
def test_who_can_say_that_it_closed_is_clean_only_when_it_does(any_rig):
    """A JVM ends with 143 after SIGTERM, whether or not a hook of it closed Kafka Streams."""
    one = any_rig(per_instance=[{"CLOSE": '{"closed": true}'}, {"CLOSE": '{"closed": false}'}], control={"close": "/close"})
    application = started(one)
    report = application.stop(timeout=10)
    assert report.gone
    assert clean(report) == [True, False]
    assert [status.reported_closed for status in report.instances] == [True, False]
    assert "exit status 143" in report.instances[1].detail
    assert "did not say that it was closed" in report.instances[1].detail
    assert clean(application.stop(timeout=10)) == [True, False], "and stays so"


@pytest.mark.deep
@pytest.mark.parametrize("answer", ["never", "[]", '{"closed": 1}'])
def test_an_answer_that_is_none_says_nothing(speaking_rig, answer):
    one = speaking_rig(environment={"CLOSE": answer}, control={"close": "/close"})
    report = started(one).stop(timeout=2)
    assert report.gone
    assert clean(report) == [False, False]
    wait(lambda: not one.leftovers())


@pytest.mark.deep
def test_without_a_way_to_close_the_end_of_the_program_speaks_for_it(rig):
    report = started(rig()).stop(timeout=10)
    assert clean(report) == [True, True]
    assert [status.reported_closed for status in report.instances] == [False, False]


@pytest.mark.deep
def test_closing_in_error_is_not_clean(speaking_rig):
    one = speaking_rig(per_instance=[{"HEALTH": "ERROR"}])
    report = started(one).stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]
    assert "ERROR before" in report.instances[0].detail


@pytest.mark.deep
def test_without_its_witness_an_instance_is_still_found_but_never_clean(rig):
    one = rig()
    application = started(one)
    one.kill_witness("one")
    assert states(application) == [RUNNING, RUNNING]
    application.start()
    report = application.stop(timeout=10)
    assert report.gone
    assert clean(report) == [False, True]
    wait(lambda: not one.leftovers())
