"""The Job that wipes a claim."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.kubernetes.wiping_jobs import job_name, wiping_job
from streams_recovery.application.settings import ControlPaths
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume
from streams_recovery.core.kubernetes.workload import WorkloadName

MOUNT = {"name": "data", "mountPath": "/data", "subPath": "orders", "readOnly": False}


POD: dict[str, Any] = {"containers": [{"name": "app", "image": "app:1"}]}


def whole(application_id: str = "orders", pod: dict[str, Any] = POD) -> Any:
    settings = KubernetesSettings(
        application_id=application_id,
        namespace="shop",
        workload=WorkloadName(kind="statefulset", name="orders"),
        container=None,
        replicas=None,
        record="record",
        state_directory="/data/state",
        claims="job",
        wipe_image="busybox:1",
        port=8080,
        control=ControlPaths(health="/health", pause=None, resume=None, query=None, close=None),
        kubeconfig=None,
        context=None,
        argocd_namespace="argocd",
        start_timeout=1.0,
    )
    return wiping_job("data-orders-0", StateVolume(lasting="templates", name="data", mount=MOUNT), settings, pod, seconds=90.0)


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
    assert whole()["metadata"]["name"] == job_name("data-orders-0") == whole()["metadata"]["name"]
    assert job_name("data-orders-0") != job_name("data-orders-1")
    assert len(job_name("x" * 253)) <= 63
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
