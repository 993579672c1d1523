"""Pods are stopped, proven gone, and come back as many. On a real control plane."""

from __future__ import annotations

import pytest

from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import ApplicationNotReady, NotFound, Refused
from tests.support.applications.states import GONE, RUNNING, clean, started, states
from tests.support.kubernetes.pod_rig import record, wait

pytestmark = pytest.mark.deep


def test_it_is_stopped_and_comes_back_with_as_many_pods(each):
    one = each()
    application = started(one)
    first = [pod.name for pod in one.pods()]
    report = application.stop(timeout=20)
    assert report.clean, report
    assert [status.name for status in report.instances] == list(one.names)
    assert one.api.get(one.own())["spec"]["replicas"] == 0
    assert record(one)["replicas"] == 2
    assert {pod["pod"] for pod in record(one)["pods"]} == set(first)
    # Somebody else, who knows nothing but what is written down.
    other = one.open()
    assert states(other) == [GONE, GONE]
    other.start()
    one.await_up()
    assert states(other) == [RUNNING, RUNNING]
    assert record(one) is None


def test_the_replica_count_is_the_one_on_record_and_not_the_one_configured(each):
    one = each()
    one.section["replicas"] = 1
    one.scale(2)
    one.await_up()
    application = one.open()
    assert application.stop(timeout=20).clean
    application.start()
    assert one.api.get(one.own())["spec"]["replicas"] == 2


def test_a_second_stop_keeps_the_count_on_record_when_another_one_scaled_it_to_less(each):
    one = each()
    application = started(one)
    assert application.stop(timeout=20).clean
    one.scale(1)
    wait(lambda: len(one.pods()) == 1, seconds=60)
    assert application.stop(timeout=20).gone
    assert record(one)["replicas"] == 2
    application.start()
    assert one.api.get(one.own())["spec"]["replicas"] == 2


def test_without_a_count_anywhere_nothing_is_started(pods):
    one = pods()
    one.section["replicas"] = None
    assert one.open().status() == ()
    with pytest.raises(Refused, match=r"runs\.kubernetes\.replicas"):
        one.open().start()


def test_a_start_with_another_environment_is_refused(pods):
    with pytest.raises(Refused, match="SCRATCH"):
        pods().open().start({"SCRATCH": "1"})


def test_a_workload_that_is_not_there_is_not_an_application_without_instances(pods):
    one = pods()
    one.section["workload"] = "statefulset/other"
    with pytest.raises(NotFound, match="statefulset/other"):
        one.open().status()


def test_instances_without_a_pod_are_not_gone_while_they_are_wanted(pods):
    one = pods()
    one.cluster.kubelet.lose(lost=True)
    try:
        one.open().start()
        found = one.open().status()
        assert [status.state for status in found] == [InstanceState.RUNNING, InstanceState.RUNNING]
        with pytest.raises(ApplicationNotReady, match="has no address yet"):
            one.open().pause()
    finally:
        one.cluster.kubelet.lose(lost=False)


def test_a_crash_before_the_stop_is_not_a_clean_close(pods):
    one = pods()
    application = started(one)
    one.kill(one.names[1])
    assert clean(application.stop(timeout=20)) == [True, False]
