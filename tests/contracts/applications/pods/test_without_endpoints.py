"""Pods that answer nothing: they are stopped, started and wiped by what Kubernetes says of them."""

from __future__ import annotations

import pytest

from streams_recovery.application.port import NoKeyRoute
from streams_recovery.core.errors import Refused
from tests.support.applications.states import GONE, RUNNING, clean, started, states
from tests.support.kubernetes.pod_rig import wait

pytestmark = pytest.mark.deep


def without_endpoints(make, **of):
    one = make(**of)
    del one.section["control"]
    one.section["port"] = None
    return one


def test_they_are_stopped_started_and_wiped(each):
    one = without_endpoints(each)
    application = started(one)
    assert [(status.silent, status.streams_state) for status in application.status()] == [(True, None)] * 2
    assert (application.can_pause, application.preflight(stops=True, wipes=True)) == (False, ())
    report = application.stop(timeout=20)
    assert (report.clean, clean(report)) == (True, [True, True])
    assert [status.reported_closed for status in report.instances] == [False, False]
    assert application.wipe_state().remaining == ()
    application.start()
    one.await_up()
    assert states(application) == [RUNNING, RUNNING]
    assert application.stop(timeout=20).gone
    assert states(application) == [GONE, GONE]


def test_the_exit_status_alone_says_whether_one_closed_cleanly(pods):
    one = without_endpoints(pods, environment={"ON_TERM": "1"})
    application = started(one)
    report = application.stop(timeout=20)
    assert (report.gone, clean(report)) == (True, [False, False])


def test_one_that_kubernetes_calls_not_ready_is_not_at_work(pods):
    one = without_endpoints(pods)
    application = started(one)
    wait(lambda: [status.streams_state for status in application.status()] == [None, None])
    pod = one.pods()[0].name
    one.api.patch(f"{one.path('pods', pod)}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    assert [status.streams_state for status in application.status()] == ["REBALANCING", None]


def test_what_only_an_endpoint_can_do_is_refused(pods):
    one = without_endpoints(pods)
    application = started(one)
    with pytest.raises(Refused, match="no way to pause"):
        application.pause()
    application.resume()
    with pytest.raises(NoKeyRoute, match="no queries"):
        application.query("totals")
