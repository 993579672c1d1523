"""What others do to pods: autoscalers, and rights. On a real control plane."""

from __future__ import annotations

import threading

import pytest

from streams_recovery.application.kubernetes import application as port
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Refused
from streams_recovery.core.preflight.findings import PreflightSeverity
from tests.support.applications.states import RUNNING, started, states
from tests.support.kubernetes.objects import autoscaler, condition, define, rights
from tests.support.kubernetes.pod_rig import RECORD, record, wait

pytestmark = pytest.mark.deep
KEDA = ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
PAUSED = "autoscaling.keda.sh/paused"


def give_up_soon(monkeypatch):
    """After a second, not a minute, as nothing will come."""
    monkeypatch.setattr(port, "_AUTOSCALER_SECONDS", 1.0)


def scaled_object(one, annotations=None):
    """One of KEDA for the application; its path."""
    path = define(one.api, one.namespace, *KEDA)
    target = {"scaleTargetRef": {"kind": "StatefulSet", "name": "counting"}}
    metadata = {"name": "scaled", "annotations": annotations or {}}
    one.api.post(path, {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": target})
    return f"{path}/scaled"


def test_an_autoscaler_is_proven_off_and_on_again(each):
    one = each()
    application = started(one)
    autoscaler(one)
    wait(lambda: condition(one)[0] != "")
    assert condition(one)[1] != "ScalingDisabled"
    assert application.stop(timeout=20).clean
    assert condition(one) == ("False", "ScalingDisabled")
    application.start()
    assert condition(one)[1] != "ScalingDisabled"


def test_an_autoscaler_that_may_scale_up_from_zero_is_refused(each):
    one = each()
    application = started(one)
    autoscaler(one, least=0)
    with pytest.raises(Refused, match="scaler has minReplicas 0"):
        application.stop(timeout=20)
    assert states(application) == [RUNNING, RUNNING]
    (found,) = application.preflight(stops=True)
    assert "minReplicas 0" in found.text


def test_an_autoscaler_that_never_says_that_it_is_off_is_not_proven_off(pods, monkeypatch):
    give_up_soon(monkeypatch)
    one = pods()
    application = started(one)
    assert application.stop(timeout=20).clean
    one.cluster.plane.stop_controllers()
    try:
        autoscaler(one)
        with pytest.raises(ApplicationNotReady, match=r"HorizontalPodAutoscaler scaler .* has not said that it is off"):
            application.stop(timeout=20)
    finally:
        one.cluster.plane.start_controllers()
    wait(lambda: condition(one) == ("False", "ScalingDisabled"), seconds=60)
    assert application.stop(timeout=20).gone


@pytest.mark.parametrize("by_hand", [False, True], ids=["by us", "by a person"])
def test_a_scaled_object_of_keda_is_paused_and_resumed(pods, by_hand):
    one = pods()
    path = scaled_object(one, {PAUSED: "true"} if by_hand else {})
    application = started(one)
    with Keda(one, path) as keda:
        assert application.stop(timeout=20).clean
        assert one.api.get(path)["metadata"]["annotations"] == {PAUSED: "true"}
        assert record(one)["paused"] == ([] if by_hand else ["scaled"])
        application.start()
        assert one.api.get(path)["metadata"].get("annotations") == ({PAUSED: "true"} if by_hand else None)
        # What it said, and how many pods were wanted then.
        assert keda.said == ([("True", 2)] if by_hand else [("True", 2), ("False", 2)])


def test_a_scaled_object_that_keda_does_not_pause_keeps_the_application_running(pods, monkeypatch):
    give_up_soon(monkeypatch)
    one = pods()
    scaled_object(one)
    application = started(one)
    with pytest.raises(ApplicationNotReady, match="ScaledObject scaled of KEDA is not paused"):
        application.stop(timeout=20)
    assert states(application) == [RUNNING, RUNNING]


def test_a_scaled_object_that_keda_does_not_resume_is_told_and_the_next_start_goes_on(pods, monkeypatch):
    one = pods()
    path = scaled_object(one)
    application = started(one)
    with Keda(one, path):
        assert application.stop(timeout=20).clean
    give_up_soon(monkeypatch)
    with pytest.raises(ApplicationNotReady, match="ScaledObject scaled of KEDA is still paused"):
        application.start()
    assert record(one)["paused"] == ["scaled"]
    one.api.patch(path, {"status": {"conditions": [{"type": "Paused", "status": "False"}]}})
    application.start()
    assert record(one) is None
    one.await_up()
    assert states(application) == [RUNNING, RUNNING]


@pytest.mark.fault("F102")
@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [("paused-replicas", "3", "holds the workload at 3 pods"), ("paused-scale-in", "true", "calls it paused all the time")],
)
def test_a_scaled_object_that_would_not_stay_at_zero_is_refused_by_name(pods, annotation, value, told):
    one = pods()
    scaled_object(one, {f"autoscaling.keda.sh/{annotation}": value})
    application = started(one)
    (found,) = application.preflight(stops=True)
    assert (found.kind, told in found.text) == ("autoscaler", True)
    with pytest.raises(Refused, match=told):
        application.stop(timeout=20)
    assert states(application) == [RUNNING, RUNNING]


class Keda(threading.Thread):
    """What KEDA does of a pause: a moment after the annotation came or went it says so."""

    def __init__(self, one, path):
        super().__init__(daemon=True)
        self._one, self._path, self._over = one, path, threading.Event()
        self.said = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join(timeout=30)

    def run(self):
        while not self._over.wait(1.0):
            annotated = PAUSED in (self._one.api.get(self._path)["metadata"].get("annotations") or {})
            status = str(annotated)
            if status != (self.said[-1][0] if self.said else "False"):
                self.said.append((status, self._one.api.get(self._one.own())["spec"]["replicas"]))
                self._one.api.patch(self._path, {"status": {"conditions": [{"type": "Paused", "status": status}]}})


@pytest.mark.parametrize(
    ("workload", "claims", "parts"),
    [("deployment", None, ()), ("statefulset", "delete", ("claims: delete",)), ("statefulset", "job", ("claims: job",))],
)
@pytest.mark.remedy("right-kubernetes")
def test_the_rights_of_the_manifest_are_enough(pods, workload, claims, parts):
    one = pods(workload=workload, claims=claims is not None)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "KEDA", *parts))
    one.section |= {"claims": claims, "wipe_image": "busybox:1" if claims == "job" else None, "start_timeout_seconds": 60}
    application = started(one)
    autoscaler(one)
    assert application.preflight(stops=True) == ()
    assert application.stop(timeout=20).clean
    assert application.wipe_state().remaining == ()
    application.start()
    one.await_up()
    assert application.stop(timeout=1).gone


def test_with_keda_in_the_cluster_its_rights_are_needed(pods):
    one = pods()
    define(one.api, one.namespace, *KEDA)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one))
    application = started(one)
    found = application.preflight(stops=True)
    assert [finding.text.split()[3:5] for finding in found] == [[verb, "scaledobjects.keda.sh"] for verb in ("list", "patch")]
    with pytest.raises(ConfigInvalid, match="scaledobjects"):
        application.stop(timeout=20)


@pytest.mark.parametrize(
    ("without", "verbs"),
    [
        ("statefulsets", ["get"]),
        ("statefulsets/scale", ["patch"]),
        ("pods", ["delete", "list", "watch"]),
        ("configmaps", ["get", "patch"]),
        ("horizontalpodautoscalers", ["list"]),
        ("nodes", ["get"]),
        ("persistentvolumeclaims", ["list"]),
        ("jobs", ["create", "delete", "get"]),
    ],
)
@pytest.mark.remedy("right-kubernetes")
def test_each_right_that_is_missing_is_named(pods, without, verbs):
    one = pods(claims=True)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "claims: job", without=without))
    one.section |= {"claims": "job", "wipe_image": "busybox:1"}
    found = [finding for finding in one.open().preflight(stops=True) if "keda" not in finding.text]
    assert sorted(finding.text.split()[3] for finding in found) == verbs
    assert {finding.severity for finding in found} == {PreflightSeverity.WARNING if without == "nodes" else PreflightSeverity.BLOCKING}
    assert all(without.split("/", maxsplit=1)[0] in finding.text for finding in found)


def test_a_record_that_is_not_there_is_made_where_that_is_allowed(pods):
    one = pods()
    application = started(one)
    assert one.api.find(one.path("configmaps", RECORD)) is None
    assert application.stop(timeout=20).clean
    assert record(one)["replicas"] == 2
