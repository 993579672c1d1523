"""Where state lies: what is gone with a pod, what outlives it, and what cannot be wiped from here."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume, claims_of, state_volume
from streams_recovery.core.kubernetes.workload import Workload, WorkloadName, workload_of


def workload(mounts: list[dict[str, str]], volumes: list[dict[str, Any]], templates: tuple[str, ...] = ()) -> Workload:
    spec = {"containers": [{"name": "app", "volumeMounts": mounts}], "volumes": volumes}
    found = {
        "metadata": {},
        "spec": {"selector": {}, "template": {"spec": spec}, "volumeClaimTemplates": [{"metadata": {"name": name}} for name in templates]},
    }
    return workload_of(WorkloadName(kind="statefulset", name="orders"), found)


def volume(of: Workload) -> tuple[str, str]:
    found = state_volume(of, "app", "/data/state")
    return found.lasting, found.name


MOUNT = {"name": "state", "mountPath": "/data"}


def test_a_volume_of_the_pod_is_gone_with_it() -> None:
    assert volume(workload([MOUNT], [{"name": "state", "emptyDir": {}}])) == ("pod", "state")
    assert volume(workload([], [])) == ("pod", "")
    assert volume(workload([{"name": "other", "mountPath": "/data/stat"}], [{"name": "other", "hostPath": {}}])) == ("pod", "")


def test_claims_outlive_pods() -> None:
    assert volume(workload([MOUNT], [], ("state",))) == ("templates", "state")
    assert volume(workload([MOUNT], [{"name": "state", "persistentVolumeClaim": {"claimName": "shared"}}])) == ("claim", "shared")


def test_the_innermost_mount_counts() -> None:
    mounts = [{"name": "inner", "mountPath": "/data/state"}, {"name": "outer", "mountPath": "/data"}]
    volumes = [{"name": "outer", "emptyDir": {}}, {"name": "inner", "persistentVolumeClaim": {"claimName": "shared"}}]
    assert volume(workload(mounts, volumes)) == ("claim", "shared")


@pytest.mark.parametrize("kind", ["hostPath", "nfs", "csi", "ephemeral"])
def test_any_other_volume_is_refused_by_its_kind(kind: str) -> None:
    with pytest.raises(ConfigInvalid, match=kind) as caught:
        volume(workload([MOUNT], [{"name": "state", kind: {}}]))
    assert caught.value.facts == {"volume": "state", "kind": kind}


@pytest.mark.parametrize("templates", [("state",), ()])
def test_a_path_that_only_the_kubelet_knows_is_refused_where_it_lasts(templates: tuple[str, ...]) -> None:
    mount = MOUNT | {"subPathExpr": "$(POD_NAME)"}
    claim = [] if templates else [{"name": "state", "persistentVolumeClaim": {"claimName": "shared"}}]
    with pytest.raises(ConfigInvalid, match="subPathExpr"):
        volume(workload([mount], claim, templates))
    assert volume(workload([mount], [{"name": "state", "emptyDir": {}}])) == ("pod", "state")


def test_claims_of_replicas_that_were_scaled_away_are_among_them() -> None:
    existing = [
        "state-orders-10",
        "state-orders-2",
        "state-orders-eu-0",
        "other-orders-0",
        "state-orders-x",
        "old-state-orders-0",
        "state-orders-0",
    ]
    templates = StateVolume(lasting="templates", name="state", mount={})
    assert claims_of(templates, workload([], []), existing) == ("state-orders-0", "state-orders-2", "state-orders-10")
    assert claims_of(StateVolume(lasting="claim", name="shared", mount={}), workload([], []), ["shared", "shared-2"]) == ("shared",)
    assert claims_of(StateVolume(lasting="pod", name="state", mount={}), workload([], []), existing) == ()
