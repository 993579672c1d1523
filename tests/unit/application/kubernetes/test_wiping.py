"""The Job that wipes a claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.wiping import APPLICATION, CLAIM, WIPE, WipingJobs, job_name, seen_since, wiping_job
from streams_recovery.application.port import StateSince, WipeMark
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core.errors import ConfigInvalid, ControlPlaneUnavailable, NotFound
from streams_recovery.core.kubernetes.workload import StateVolume, application_container, workload_of

MOUNT = {"name": "data", "mountPath": "/data", "subPath": "orders", "readOnly": False}

POD: dict[str, Any] = {"containers": [{"name": "app", "image": "app:1"}]}


SECTION = KubernetesRuns(
    namespace="shop", workload="statefulset/orders", state_directory="/data/state", claims="job", wipe_image="busybox:1", port=8080
)
VOLUME = StateVolume(lasting="templates", name="data", mount=MOUNT)


def whole(application_id: str = "orders", pod: dict[str, Any] = POD) -> Any:
    return wiping_job("data-orders-0", VOLUME, SECTION, application_id, pod, wipe="this", seconds=90.0)


def job(application_id: str = "orders", pod: dict[str, Any] = POD) -> Any:
    return whole(application_id, pod)["spec"]["template"]["spec"]


def test_it_removes_one_directory_and_then_looks_that_it_is_gone() -> None:
    pod = job()
    assert pod["initContainers"][0]["command"] == ["rm", "-rf", "--", "/data/state/orders"]
    assert pod["containers"][0]["command"] == ["test", "!", "-e", "/data/state/orders"]
    assert pod["restartPolicy"] == "Never"


def test_it_sees_the_claim_where_the_application_does() -> None:
    pod = job()
    assert pod["volumes"] == [{"name": "state", "persistentVolumeClaim": {"claimName": "data-orders-0"}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "state", "mountPath": "/data", "subPath": "orders"}]


@pytest.mark.parametrize("application_id", ["..", "a/b", ""])
def test_it_never_removes_anything_else(application_id: str) -> None:
    with pytest.raises(ConfigInvalid):
        job(application_id)


def test_there_is_one_for_each_claim_and_it_ends_by_itself() -> None:
    assert whole()["metadata"]["name"] == job_name("data-orders-0", "orders") == whole()["metadata"]["name"]
    assert len({job_name(claim, one) for claim in ("data-orders-0", "data-orders-1") for one in ("orders", "payments")}) == 4
    assert len(job_name("x" * 253, "y" * 249)) <= 63
    assert (whole()["spec"]["activeDeadlineSeconds"], whole()["spec"]["backoffLimit"]) == (90, 0)


def test_it_runs_where_and_as_whom_the_application_does_and_takes_nothing_else_of_it() -> None:
    limited = {"runAsNonRoot": True, "allowPrivilegeEscalation": False}
    pod = {
        "containers": [{"name": "app", "image": "app:1", "securityContext": limited, "env": [{"name": "PASSWORD", "value": "x"}]}],
        "securityContext": {"runAsUser": 1000},
        "tolerations": [{"key": "kafka"}],
        "nodeSelector": {"disk": "ssd"},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "orders",
        "volumes": [{"name": "secrets"}],
    }
    made = job(pod=pod)
    assert {name: made[name] for name in ("securityContext", "tolerations", "nodeSelector", "imagePullSecrets")} == {
        name: pod[name] for name in ("securityContext", "tolerations", "nodeSelector", "imagePullSecrets")
    }
    assert all(one["securityContext"] == limited for one in (*made["initContainers"], *made["containers"]))
    assert "serviceAccountName" not in made
    assert "PASSWORD" not in str(made)
    assert [one["name"] for one in made["volumes"]] == ["state"]


class Jobs:
    """The Jobs of a namespace. Each ends at once, and says that it is done. ``at_create`` is done before one is created."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.done: list[str] = []
        self.at_create: Callable[[Any], None] = lambda _: None
        self.client, self.section = self, SECTION

    def api(self, _: str) -> Any:
        return self

    def call(self, doing: str, function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        del doing
        return function(*arguments)

    def create_namespaced_job(self, _: str, body: Any) -> None:
        self.at_create(body)
        if body["metadata"]["name"] in self.there:
            raise ControlPlaneUnavailable("409", next_step="again", status=409)
        self.add(body)

    def add(self, body: Any) -> None:
        self.there[body["metadata"]["name"]] = {**body, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        self.done += [one["command"][-1] for one in body["spec"]["template"]["spec"]["initContainers"]]

    def read_namespaced_job(self, name: str, _: str) -> Any:
        if name not in self.there:
            raise NotFound(name, next_step="none")
        return self.there[name]

    def delete_namespaced_job(self, name: str, _: str) -> None:
        del self.there[name]

    def wipe(self, application_id: str = "orders") -> tuple[str, ...]:
        return WipingJobs(cast("Cluster", self), application_id, POD).wipe(["shared"], VOLUME, seconds=1.0)


def test_a_job_whose_creation_was_not_answered_is_believed() -> None:
    jobs = Jobs()
    jobs.at_create = jobs.add
    assert jobs.wipe() == ()
    assert (jobs.done, jobs.there) == (["/data/state/orders"], {})


def test_applications_on_one_claim_have_a_job_each() -> None:
    jobs = Jobs()
    other = wiping_job("shared", VOLUME, SECTION, "payments", POD, wipe="that", seconds=90.0)
    jobs.at_create = lambda _: jobs.there or jobs.add(other)
    assert jobs.wipe() == ()
    assert jobs.done == ["/data/state/payments", "/data/state/orders"]
    assert list(jobs.there) == [other["metadata"]["name"]], "that of the other one is left to it"


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {CLAIM: "shared", APPLICATION: "orders", WIPE: "another"},
        {CLAIM: "shared", APPLICATION: "payments", WIPE: "another"},
        {CLAIM: "another", APPLICATION: "orders", WIPE: "another"},
    ],
    ids=["a stranger", "another run", "another application", "another claim"],
)
def test_a_job_that_is_not_of_this_wipe_is_refused_by_name(annotations: dict[str, str]) -> None:
    jobs = Jobs()
    name = job_name("shared", "orders")
    found = {"metadata": {"name": name, "annotations": annotations}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    jobs.at_create = lambda _: jobs.there.update({name: found})
    (why,) = jobs.wipe()
    assert name in why
    assert "not of this wipe" in why
    assert jobs.done == [], "no state is wiped, and none is said to be"


def test_a_job_that_was_replaced_meanwhile_is_not_believed() -> None:
    jobs = Jobs()
    read = jobs.read_namespaced_job

    def replaced(name: str, namespace: str) -> Any:
        found = read(name, namespace)
        return {**found, "metadata": {**found["metadata"], "annotations": {CLAIM: "shared", APPLICATION: "orders", WIPE: "another"}}}

    jobs.read_namespaced_job = replaced  # type: ignore[method-assign]
    assert "somebody replaced job" in jobs.wipe()[0]


class Pods:
    """One pod of a StatefulSet with its claim, into which something in the cluster has put a container and a volume."""

    def __init__(self, container: str = "app") -> None:
        mounts = [{"name": "data", "mountPath": "/data"}]
        self.template = {"spec": {"containers": [{"name": container, "volumeMounts": mounts}]}}
        self.section = SECTION.model_copy(update={"claims": "delete", "wipe_image": None})
        self.client = self

    def api(self, _: str) -> Any:
        return self

    def call(self, doing: str, function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        del doing
        return function(*arguments)

    def list_namespaced_persistent_volume_claim(self, _: str) -> Any:
        return {"items": [{"metadata": {"name": "data-orders-0", "uid": "claim-2"}}]}

    def workload(self) -> Any:
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "orders"}},
            "template": self.template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        }
        return workload_of(self.section.workload_name, {"metadata": {}, "spec": spec})

    def container(self, workload: Any) -> str:
        return application_container(workload.template, self.section.container, "orders")

    def pod_objects(self, _: Any) -> Any:
        app = {"name": "app", "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "certs", "mountPath": "/certs"}]}
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-orders-0"}}
        volumes = [claim, {"name": "certs", "csi": {"driver": "mesh"}}]
        return [{"metadata": {"name": "orders-0", "uid": "pod-2"}, "spec": {"containers": [{"name": "mesh"}, app], "volumes": volumes}}]

    def since(self, known: str) -> StateSince:
        mark = WipeMark(place=self.section.workload, known=(known,))
        return seen_since(cast("Cluster", self), "orders", [mark])


@pytest.mark.fault("F107")
def test_a_container_that_a_service_mesh_has_put_into_a_pod_does_not_stop_a_restore() -> None:
    found = Pods().since("claim-1")
    assert (found.fresh, found.stale, found.unseen) == (("pod orders-0: claim data-orders-0 was made after the wipe",), (), ())
    assert len(Pods().since("claim-2").stale) == 1
    assert Pods(container="renamed").since("claim-1").unseen == ("pod orders-0: it has no container renamed",)
