"""What goes wrong while pods are stopped, on a real control plane."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from streams_recovery.core.errors import ApplicationRunning, ControlPlaneUnavailable, ScaledByAnother
from streams_recovery.core.kubernetes import workload
from tests.support.applications.states import GONE, RUNNING, UNKNOWN, clean, started, states
from tests.support.kubernetes.kubelet import NODE
from tests.support.kubernetes.pod_rig import wait

pytestmark = pytest.mark.deep


class Meanwhile(threading.Thread):
    """A stop in a thread, with what came of it."""

    def __init__(self, application, *, timeout):
        super().__init__(daemon=True)
        self._application, self._timeout = application, timeout
        self.report = self.error = None
        self.start()

    def run(self):
        try:
            self.report = self._application.stop(timeout=self._timeout)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.error = error

    def result(self):
        self.join(timeout=120)
        assert not self.is_alive()
        return self.report, self.error


def at_zero(one):
    return one.api.get(one.own())["spec"]["replicas"] == 0


def test_the_api_server_is_away_in_mid_stop_and_the_ends_are_seen_all_the_same(pods):
    one = pods()
    application = started(one)
    kubelet, plane = one.cluster.kubelet, one.cluster.plane
    kubelet.idle = True
    try:
        stopping = Meanwhile(application, timeout=60)
        wait(lambda: at_zero(one) and plane.watchers() > 0)
        plane.stop_api()
        plane.start_api()
        wait(lambda: plane.watchers() > 0)
    finally:
        kubelet.idle = False
    report, error = stopping.result()
    assert error is None
    assert report.clean, report


def test_an_end_that_came_while_the_api_server_was_away_is_an_end_and_perhaps_not_a_clean_one(pods):
    one = pods(environment={"ON_TERM": "ignore"}, grace=5)
    application = started(one)
    stopping = Meanwhile(application, timeout=60)
    wait(lambda: at_zero(one) and all(pod._kill_at for pod in one.pods()))
    one.cluster.plane.stop_api()
    try:
        wait(lambda: all(pod.ended for pod in one.pods()))
    finally:
        one.cluster.plane.start_api()
    report, error = stopping.result()
    assert error is None
    assert report.gone
    assert clean(report) == [False, False]


def test_an_api_server_that_stays_away_is_a_transient_error_and_the_next_run_goes_on(pods, monkeypatch):
    from streams_recovery.application.kubernetes import cluster, ending

    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    monkeypatch.setattr(ending, "_OUTAGE_SECONDS", 1.0)
    one = pods(environment={"ON_TERM": "ignore"}, grace=4)
    application = started(one)
    stopping = Meanwhile(application, timeout=2)
    wait(lambda: at_zero(one))
    one.cluster.plane.stop_api()
    try:
        _, error = stopping.result()
    finally:
        one.cluster.plane.start_api()
    assert isinstance(error, ControlPlaneUnavailable)
    assert error.facts["status"] is None
    monkeypatch.undo()
    again = one.open().stop(timeout=30)
    assert again.gone
    one.open().start()
    one.await_up()
    assert states(one.open()) == [RUNNING, RUNNING]


@pytest.mark.fault("F42")
@pytest.mark.parametrize(("by", "named"), [("", "somebody-s-controller"), ("/scale", "a client that left no name")])
def test_a_second_controller_that_scales_up_in_mid_stop_is_refused_and_named_where_kubernetes_knows_it(pods, by, named):
    one = pods(environment={"ON_TERM": "ignore"}, grace=20)
    application = started(one)
    stopping = Meanwhile(application, timeout=60)
    wait(lambda: at_zero(one))
    one.scale(1, manager="somebody-s-controller", by=by)
    report, error = stopping.result()
    assert report is None
    assert isinstance(error, ScaledByAnother)
    assert error.facts["manager"] == named
    assert f"scaled to 1 by {named}" in str(error)
    with pytest.raises(ApplicationRunning):
        application.wipe_state()
    application.start()
    one.await_up()
    assert states(one.open()) == [RUNNING, RUNNING], "as many as before, not as that controller wanted"


@pytest.mark.fault("F42")
@pytest.mark.parametrize("workload_kind", ["deployment", "statefulset"])
def test_without_the_controllers_no_pod_is_no_proof_that_none_comes(pods, monkeypatch, workload_kind):
    from streams_recovery.application.kubernetes import application as port

    monkeypatch.setattr(port, "_KILL_SECONDS", 3.0)
    one = pods(workload=workload_kind)
    application = started(one)
    one.cluster.plane.stop_controllers()
    try:
        report = application.stop(timeout=2)
        assert one.pods() == [], "they were killed one by one"
        assert [status.state for status in report.instances] == [UNKNOWN, UNKNOWN]
        assert all("kube-controller-manager" in status.detail for status in report.instances)
        with pytest.raises(ApplicationRunning):
            application.wipe_state()
    finally:
        one.cluster.plane.start_controllers()
    monkeypatch.undo()
    assert one.open().stop(timeout=30).gone


def test_a_pod_that_does_not_go_is_killed_when_the_time_is_up(pods):
    one = pods(per_instance=[{"ON_TERM": "ignore"}], grace=300)
    report = started(one).stop(timeout=2)
    assert report.gone
    assert clean(report) == [False, True]
    assert "exit status 137" in report.instances[0].detail
    wait(lambda: not one.leftovers())


@pytest.mark.fault("F42")
def test_a_pod_on_a_node_that_is_lost_is_named_and_not_called_gone(pods, monkeypatch):
    from streams_recovery.application.kubernetes import application as port

    monkeypatch.setattr(port, "_KILL_SECONDS", 3.0)
    one = pods(grace=1)
    application = started(one)
    one.cluster.kubelet.lose(lost=True)
    try:
        report = application.stop(timeout=3)
        assert not report.gone
        assert [status.state for status in report.instances] == [UNKNOWN, UNKNOWN]
        assert all(f"node {NODE}" in status.detail and "does not answer" in status.detail for status in report.instances)
        assert len(one.leftovers()) >= 2
        # By force: the objects go, the programs stay.
        for pod in one.pods():
            one.api.delete(one.path("pods", pod.name), {"gracePeriodSeconds": 0})
        found = one.open().status()
        assert [status.state for status in found] == [UNKNOWN, UNKNOWN]
        assert "turn that node off" in found[0].detail
        with pytest.raises(ApplicationRunning, match="turn that node off"):
            one.open().wipe_state()
    finally:
        one.cluster.kubelet.lose(lost=False)
    wait(lambda: not one.leftovers())
    monkeypatch.setattr(workload, "_SILENCE", timedelta(seconds=2))
    found = one.open().stop(timeout=1).instances
    assert all("removed by force" in status.detail for status in found)
    wait(lambda: {status.state for status in one.open().status()} == {GONE})
    assert clean(one.open().stop(timeout=1)) == [False, False]


@pytest.mark.fault("F100")
def test_a_pod_that_is_deleted_by_force_in_mid_stop_is_not_gone_while_its_program_may_run(pods, monkeypatch):
    monkeypatch.setattr(workload, "_SILENCE", timedelta(seconds=5))
    one = pods(environment={"ON_TERM": "ignore"}, grace=4)
    application = started(one)
    stopping = Meanwhile(application, timeout=60)
    wait(lambda: at_zero(one) and all(pod._kill_at for pod in one.pods()))
    one.cluster.kubelet.idle = True
    try:
        for pod in one.pods():
            one.api.delete(one.path("pods", pod.name), {"gracePeriodSeconds": 0})
        report, error = stopping.result()
        assert error is None
        assert [status.state for status in report.instances] == [UNKNOWN, UNKNOWN]
        assert all("may run until" in status.detail for status in report.instances)
        assert len(one.leftovers()) >= 2, "the programs are there"
        with pytest.raises(ApplicationRunning):
            one.open().wipe_state()
    finally:
        one.cluster.kubelet.idle = False
    wait(lambda: not one.leftovers())
    wait(lambda: {status.state for status in one.open().status()} == {GONE})
    assert clean(one.open().stop(timeout=1)) == [False, False]


@pytest.mark.fault("F100")
@pytest.mark.parametrize("workload_kind", ["deployment", "statefulset"])
def test_a_pod_whose_labels_were_changed_in_mid_stop_is_still_an_instance_and_is_not_killed(pods, monkeypatch, workload_kind):
    from streams_recovery.application.kubernetes import application as port

    monkeypatch.setattr(port, "_KILL_SECONDS", 3.0)
    one = pods(workload=workload_kind)
    application = started(one)
    one.cluster.kubelet.idle = True
    kept = one.pods()[0]
    try:
        stopping = Meanwhile(application, timeout=4)
        wait(lambda: at_zero(one))
        one.api.patch(one.path("pods", kept.name), {"metadata": {"labels": dict.fromkeys(labels_of(one, kept.name), "kept-aside")}})
        one.cluster.kubelet.idle = False
        report, error = stopping.result()
    finally:
        one.cluster.kubelet.idle = False
    assert error is None
    assert not report.gone
    assert sorted(status.state for status in report.instances) != [GONE, GONE]
    with pytest.raises(ApplicationRunning):
        one.open().wipe_state()
    if one.api.find(one.path("pods", kept.name)) is not None:
        one.api.delete(one.path("pods", kept.name), {})
    wait(lambda: not one.leftovers(), seconds=60)


def labels_of(one, name):
    return one.api.get(one.path("pods", name))["metadata"]["labels"]


@pytest.mark.fault("F45")
def test_a_claim_that_stays_attached_is_named_with_who_uses_it(pods):
    one = pods(claims=True)
    one.section |= {"claims": "delete", "start_timeout_seconds": 3}
    application = started(one)
    spec = {
        "containers": [{"name": "reader", "image": "reader:1", "command": ["sleep", "600"]}],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "state-counting-0"}}],
    }
    one.api.post(one.path("pods"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec})
    assert application.stop(timeout=20).gone
    report = application.wipe_state()
    assert report.removed == ("claim state-counting-1",)
    assert report.remaining == ("claim state-counting-0, which is in use by pod reader",)
