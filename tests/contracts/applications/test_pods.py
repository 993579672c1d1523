"""Pods, where these differ from the other ways to run an application. On a real control plane."""

from __future__ import annotations

import json
import threading

import pytest

from streams_recovery.application.kubernetes.wiping import wipeable
from streams_recovery.application.kubernetes.wiping_jobs import wiping_job
from streams_recovery.application.port import InstanceState
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, ManagedByAnother, NotFound, Refused
from streams_recovery.core.preflight.findings import Severity
from tests.support.applications.states import GONE, RUNNING, clean, started, states
from tests.support.kubernetes.objects import autoscaler, condition, define, rights
from tests.support.kubernetes.pod_rig import wait

pytestmark = pytest.mark.deep
RECORD = "counting-streams-recovery"
ARGO = ("argoproj.io", "v1alpha1", "Application", "applications")
FLUX = ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")
KEDA = ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")
PAUSED = "autoscaling.keda.sh/paused"


@pytest.fixture(params=["statefulset", "deployment"])
def each(request, pods):
    """A rig of each kind of workload."""
    return lambda **settings: pods(workload=request.param, **settings)


def record(one):
    found = one.api.get(one.path("configmaps", RECORD)).get("data") or {}
    return json.loads(found["stop"]) if "stop" in found else None


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


@pytest.mark.fault("F45")
def test_an_empty_dir_is_gone_with_its_pod(each):
    one = each()
    application = started(one)
    places = one.states
    assert all(any(place.iterdir()) for place in places)
    application.stop(timeout=20)
    assert not any(place.exists() for place in places)
    report = application.wipe_state()
    assert (len(report.removed), report.remaining) == (2, ())
    assert application.wipe_state().removed == ()


@pytest.mark.fault("F45")
def test_claims_are_deleted_and_those_of_replicas_that_were_scaled_away_too(pods):
    one = pods(claims=True)
    one.section["claims"] = "delete"
    one.scale(3)
    wait(lambda: len(one.pods()) == 3, seconds=60)
    places = one.states
    one.scale(2)
    wait(lambda: len(one.pods()) == 2, seconds=60)
    application = one.open()
    one.await_up()
    assert application.stop(timeout=20).gone
    report = application.wipe_state()
    assert report.removed == ("claim state-counting-0", "claim state-counting-1", "claim state-counting-2")
    assert report.remaining == ()
    assert one.api.items(one.path("persistentvolumeclaims")) == []
    wait(lambda: not any(place.exists() for place in places), seconds=60)
    application.start()
    one.await_up()


@pytest.mark.fault("F45")
def test_a_job_wipes_the_application_s_directory_on_each_claim_and_nothing_else(pods):
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1", "start_timeout_seconds": 60}
    application = started(one)
    places = one.states
    for place in places:
        (place / "bystander").mkdir()
    application.stop(timeout=20)
    assert all((place / "counting").exists() for place in places)
    report = application.wipe_state()
    assert (report.removed, report.remaining) == (("claim state-counting-0", "claim state-counting-1"), ())
    assert not any((place / "counting").exists() for place in places)
    assert all((place / "bystander").exists() for place in places)


def test_claims_are_not_touched_unless_the_configuration_says_how(pods):
    one = pods(claims=True)
    application = started(one)
    application.stop(timeout=20)
    with pytest.raises(ConfigInvalid, match=r"claims that outlive its pods: state.*runs\.kubernetes\.claims"):
        application.wipe_state()
    assert [found.kind for found in application.preflight(stops=True, wipes=True)] == ["state-not-wipeable"]
    assert application.preflight(stops=True) == ()


def test_a_job_of_a_killed_run_wipes_nothing_of_an_application_that_runs_again(pods):
    """The run was killed while its job waited for a node. The next one starts the application: the job must not find its place then."""
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1", "start_timeout_seconds": 60}
    application = started(one)
    application.stop(timeout=20)
    one.cluster.kubelet.lose(lost=True)
    try:
        one.api.post(one.path("jobs"), left_job(one, "state-counting-0"))
        wait(lambda: len(one.api.get(one.path("jobs"))["items"]) == 1)
    finally:
        one.cluster.kubelet.lose(lost=False)
    one.open().start()
    assert one.api.get(one.path("jobs"))["items"] == []
    one.await_up()
    assert all((place / "counting").exists() for place in one.states)


def test_state_that_no_job_could_wipe_keeps_no_application_down(pods):
    """A savepoint stops and starts it too, and wipes nothing."""
    one = pods(claims=True)
    one.section |= {"claims": "job", "wipe_image": "busybox:1"}
    application = started(one)
    assert application.stop(timeout=20).clean
    container = one.api.get(one.own())["spec"]["template"]["spec"]["containers"][0]
    mounts = [mount | {"subPathExpr": "$(POD_NAME)"} for mount in container["volumeMounts"]]
    one.api.patch(one.own(), {"spec": {"template": {"spec": {"containers": [container | {"volumeMounts": mounts}]}}}})
    wait(lambda: {status.state for status in one.open().status()} == {GONE})
    with pytest.raises(ConfigInvalid, match="subPathExpr"):
        one.open().wipe_state()
    one.open().start()
    assert one.api.get(one.own())["spec"]["replicas"] == 2


def left_job(one, claim):
    """As the wipe of a run makes it."""
    application = one.open()
    cluster, settings = application._cluster, application._settings
    workload = cluster.workload()
    volume = wipeable(cluster, settings, workload)
    return wiping_job(claim, volume, settings, workload.template["spec"], seconds=600)


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
    from streams_recovery.application.kubernetes import application as port

    monkeypatch.setattr(port, "_AUTOSCALER_SECONDS", 1.0)
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
    path = define(one.api, one.namespace, *KEDA)
    reference = {"kind": "StatefulSet", "name": "counting"}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "scaled"}, "spec": {"scaleTargetRef": reference}}
    one.api.post(path, {**body, "metadata": {"name": "scaled", "annotations": {PAUSED: "true"} if by_hand else {}}})
    application = started(one)
    with Keda(one, f"{path}/scaled") as keda:
        assert application.stop(timeout=20).clean
        assert one.api.get(f"{path}/scaled")["metadata"]["annotations"] == {PAUSED: "true"}
        assert record(one)["paused"] == ([] if by_hand else ["scaled"])
        application.start()
        assert one.api.get(f"{path}/scaled")["metadata"].get("annotations") == ({PAUSED: "true"} if by_hand else None)
        # What it said, and how many pods were wanted then.
        assert keda.said == ([("True", 2)] if by_hand else [("True", 2), ("False", 2)])


def test_a_scaled_object_that_keda_does_not_pause_keeps_the_application_running(pods, monkeypatch):
    from streams_recovery.application.kubernetes import application as port

    monkeypatch.setattr(port, "_AUTOSCALER_SECONDS", 1.0)
    one = pods()
    path = define(one.api, one.namespace, *KEDA)
    reference = {"kind": "StatefulSet", "name": "counting"}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "scaled"}, "spec": {"scaleTargetRef": reference}}
    one.api.post(path, body)
    application = started(one)
    with pytest.raises(ApplicationNotReady, match="ScaledObject scaled of KEDA is not paused"):
        application.stop(timeout=20)
    assert states(application) == [RUNNING, RUNNING]


def test_a_scaled_object_that_keda_does_not_resume_is_told_and_the_next_start_goes_on(pods, monkeypatch):
    from streams_recovery.application.kubernetes import application as port

    one = pods()
    path = define(one.api, one.namespace, *KEDA)
    reference = {"kind": "StatefulSet", "name": "counting"}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "scaled"}, "spec": {"scaleTargetRef": reference}}
    one.api.post(path, body)
    application = started(one)
    with Keda(one, f"{path}/scaled"):
        assert application.stop(timeout=20).clean
    monkeypatch.setattr(port, "_AUTOSCALER_SECONDS", 1.0)
    with pytest.raises(ApplicationNotReady, match="ScaledObject scaled of KEDA is still paused"):
        application.start()
    assert record(one)["paused"] == ["scaled"]
    one.api.patch(f"{path}/scaled", {"status": {"conditions": [{"type": "Paused", "status": "False"}]}})
    application.start()
    assert record(one) is None
    one.await_up()
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
    ("kind", "labels", "annotations", "going", "suspended", "named"),
    [
        (
            ARGO,
            {},
            {"argocd.argoproj.io/tracking-id": "{namespace}_shop:apps/StatefulSet:x/counting"},
            {"syncPolicy": {"automated": {"selfHeal": True}}},
            {"syncPolicy": {"automated": None}},
            "Argo CD Application {namespace}/shop",
        ),
        (
            FLUX,
            {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "{namespace}"},
            {},
            {"suspend": False},
            {"suspend": True},
            "Flux Kustomization {namespace}/shop",
        ),
    ],
    ids=["argo", "flux"],
)
def test_what_a_git_repository_owns_is_refused_by_name_unless_suspended(pods, kind, labels, annotations, going, suspended, named):
    one = pods()
    group, version, name, _ = kind
    path = define(one.api, one.namespace, *kind)
    one.api.post(path, {"apiVersion": f"{group}/{version}", "kind": name, "metadata": {"name": "shop"}, "spec": going})

    def filled(texts):
        return {key: text.format(namespace=one.namespace) for key, text in texts.items()}

    one.api.patch(one.own(), {"metadata": {"labels": filled(labels), "annotations": filled(annotations)}})
    application = started(one)
    with pytest.raises(ManagedByAnother, match=named.format(namespace=one.namespace)) as caught:
        application.stop(timeout=20)
    assert "suspend" in str(caught.value)
    assert states(application) == [RUNNING, RUNNING]
    assert [found.kind for found in application.preflight(stops=True)] == ["managed-elsewhere"]
    one.api.patch(f"{path}/shop", {"spec": suspended})
    assert application.preflight(stops=True) == ()
    assert application.stop(timeout=20).clean


@pytest.mark.parametrize(
    ("workload", "claims", "parts"),
    [("deployment", None, ()), ("statefulset", "delete", ("claims: delete",)), ("statefulset", "job", ("claims: job",))],
)
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
def test_each_right_that_is_missing_is_named(pods, without, verbs):
    one = pods(claims=True)
    one.section["kubeconfig"] = one.cluster.plane.kubeconfig(rights(one, "claims: job", without=without))
    one.section |= {"claims": "job", "wipe_image": "busybox:1"}
    found = [finding for finding in one.open().preflight(stops=True) if "keda" not in finding.text]
    assert sorted(finding.text.split()[3] for finding in found) == verbs
    assert {finding.severity for finding in found} == {Severity.WARNING if without == "nodes" else Severity.BLOCKING}
    assert all(without.split("/", maxsplit=1)[0] in finding.text for finding in found)


def test_a_record_that_is_not_there_is_made_where_that_is_allowed(pods):
    one = pods()
    application = started(one)
    assert one.api.find(one.path("configmaps", RECORD)) is None
    assert application.stop(timeout=20).clean
    assert record(one)["replicas"] == 2


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
