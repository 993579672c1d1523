"""The Job that wipes a claim."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.application.kubernetes.claims import wiping_job
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.settings import ControlPaths
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume
from streams_recovery.core.kubernetes.workload import WorkloadName

MOUNT = {"name": "data", "mountPath": "/data", "subPath": "orders", "readOnly": False}


def job(application_id: str = "orders") -> Any:
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
    return wiping_job("data-orders-0", StateVolume(lasting="templates", name="data", mount=MOUNT), settings)["spec"]["template"]["spec"]


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
