"""The workload: how it selects its pods, and who has scaled it.

Pods: what proves that one is gone, and how its container ended. Where state lies: what is gone with a pod, what outlives it, and what cannot be wiped from
here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.workload import (
    ContainerEnd,
    Pod,
    StateVolume,
    Workload,
    WorkloadName,
    application_container,
    claims_of,
    held_update,
    in_slots,
    node_state,
    of_another,
    pod_of,
    selector_text,
    state_volume,
    workload_of,
)

ORDERS = WorkloadName(kind="deployment", name="orders")


def entry(manager: str, at: str, **spec: Any) -> dict[str, Any]:
    return {"manager": manager, "time": at, "fieldsV1": {"f:spec": spec}}


def found(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "orders", **metadata},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "orders"}}, "template": {"spec": {"containers": []}}},
    }


def test_a_name_is_written_as_kubectl_writes_it() -> None:
    assert WorkloadName.parse("statefulset/orders") == WorkloadName(kind="statefulset", name="orders")
    assert str(ORDERS) == "deployment/orders"


@pytest.mark.parametrize("text", ["orders", "daemonset/orders", "deployment/", "deployment/a/b", "/orders"])
def test_anything_else_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match="deployment/NAME or statefulset/NAME"):
        WorkloadName.parse(text)


def test_a_selector_has_every_rule() -> None:
    rules = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "role", "operator": "NotIn", "values": ["job"]},
        {"key": "x", "operator": "Exists"},
        {"key": "y", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"b": "2", "a": "1"}, "matchExpressions": rules}, "deployment/orders")
    assert text == "a=1,b=2,tier in (a,b),role notin (job),x,!y"


def test_a_rule_that_is_not_known_is_not_left_out() -> None:
    with pytest.raises(ConfigInvalid, match="Gt") as caught:
        selector_text({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, "deployment/orders")
    assert caught.value.facts["workload"] == "deployment/orders"


def test_the_last_who_wrote_the_replica_count_is_known() -> None:
    entries = [
        entry("kubectl", "2026-11-01T00:00:02Z", **{"f:replicas": {}}),
        entry("horizontal-pod-autoscaler", "2026-11-01T00:00:03Z", **{"f:replicas": {}}),
        entry("kube-controller-manager", "2026-11-01T00:00:04Z", **{"f:template": {}}),
    ]
    workload = workload_of(ORDERS, found(managedFields=entries))
    assert str(workload.scaler) == "horizontal-pod-autoscaler at 2026-11-01T00:00:03Z"
    assert workload.managers == {"kubectl", "horizontal-pod-autoscaler", "kube-controller-manager"}


def test_nobody_may_have_left_a_name() -> None:
    assert str(workload_of(ORDERS, found()).scaler) == "a client that left no name"


def test_without_a_count_kubernetes_runs_one() -> None:
    plain = found()
    del plain["spec"]["replicas"]
    assert workload_of(ORDERS, plain).replicas == 1
    plain["spec"]["replicas"] = 0
    assert workload_of(ORDERS, plain).replicas == 0


ENDS_BY = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def pod(name: str = "orders-0", *, phase: str = "Running", created: str = "", states: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    shown = {"app": {"running": {}}} if states is None else states
    statuses = [{"name": container, "state": state, "containerID": f"run-of-{container}"} for container, state in shown.items()]
    found = {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": created, **metadata},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": statuses},
    }
    return pod_of(found, "app")


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


def test_the_end_is_that_of_the_applications_container() -> None:
    found = pod(states={"app": ended(143), "proxy": ended(0, "Completed")})
    assert found.ended == ContainerEnd(exit_code=143, reason="Error", container="run-of-app")
    assert found.container == "run-of-app"
    assert pod(states={"app": {"running": {}}, "proxy": ended(0)}).ended is None


@pytest.mark.parametrize(
    ("phase", "states", "active"),
    [
        ("Running", {"app": {"running": {}}}, True),
        ("Running", {"app": ended(1)}, True),
        ("Failed", {"app": ended(1)}, False),
        ("Succeeded", {"app": ended(0)}, False),
        ("Failed", {"app": {"running": {}}}, True),
        ("Failed", {"app": ended(1), "proxy": {"running": {}}}, True),
        ("Pending", {"app": {"waiting": {"reason": "ContainerCreating"}}}, True),
    ],
)
def test_only_one_that_ended_whole_and_for_good_is_not_active(phase: str, states: dict[str, Any], active: bool) -> None:
    assert pod(phase=phase, states=states).active is active


def test_one_that_was_asked_to_end_is_active_until_its_object_is_gone() -> None:
    assert pod(phase="Failed", states={"app": ended(143)}, deletionTimestamp="2026-11-01T12:00:00Z").active


def test_a_failed_pod_of_which_no_container_is_known_is_active() -> None:
    found = {"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Failed"}}
    assert pod_of(found, "app").active


def refused(reason: str, **status: Any) -> Pod:
    found = {"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Failed", "reason": reason, **status}}
    return pod_of(found, "app")


@pytest.mark.fault("F100")
@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfpods", "NodeAffinity", "UnexpectedAdmissionError"])
def test_a_pod_that_its_kubelet_refused_never_ran(reason: str) -> None:
    assert not refused(reason).active
    assert refused(reason, containerStatuses=[{"name": "app", "state": {"running": {}}}]).active, "something of it was started"
    assert refused("NodeLost").active


def test_a_pod_is_overdue_when_it_should_have_been_gone_for_a_while() -> None:
    ending = pod(deletionTimestamp="2026-11-01T12:00:00Z")
    assert not ending.overdue(ENDS_BY + timedelta(seconds=29))
    assert ending.overdue(ENDS_BY + timedelta(seconds=31))
    assert not pod().overdue(ENDS_BY + timedelta(days=1))


def test_pods_of_a_stateful_set_keep_their_names_and_the_order_of_their_numbers() -> None:
    pods = [pod(f"orders-{number}") for number in (10, 2, 0)]
    assert list(in_slots("orders", pods)) == ["orders-0", "orders-2", "orders-10"]


def test_pods_of_a_deployment_are_counted_by_age() -> None:
    pods = [pod("orders-6f-zz", created="2026-11-01T00:00:01Z"), pod("orders-6f-aa", created="2026-11-01T00:00:02Z")]
    assert {name: one.name for name, one in in_slots("orders", pods).items()} == {"orders-0": "orders-6f-zz", "orders-1": "orders-6f-aa"}


def test_a_pod_that_ended_for_good_takes_no_slot() -> None:
    evicted = pod("orders-6f-aa", phase="Failed", states={"app": ended(137)})
    assert [one.name for one in in_slots("orders", [evicted, pod("orders-6f-bb")]).values()] == ["orders-6f-bb"]


def test_several_containers_need_a_name() -> None:
    template = {"spec": {"containers": [{"name": "app"}, {"name": "proxy"}]}}
    assert application_container(template, "proxy", "here") == "proxy"
    assert application_container({"spec": {"containers": [{"name": "only"}]}}, None, "here") == "only"
    with pytest.raises(ConfigInvalid, match="app, proxy"):
        application_container(template, None, "here")
    with pytest.raises(ConfigInvalid, match="none is named main"):
        application_container(template, "main", "here")


@pytest.mark.parametrize(("status", "state"), [("True", "ready"), ("False", "lost"), ("Unknown", "lost")])
def test_a_node_that_is_not_ready_is_lost(status: str, state: str) -> None:
    assert node_state({"status": {"conditions": [{"type": "Ready", "status": status}]}}) == state


def test_a_node_without_an_object_is_absent_and_one_that_never_reported_is_lost() -> None:
    assert (node_state(None), node_state({})) == ("absent", "lost")


@pytest.mark.parametrize(
    ("workload", "owner", "another"),
    [
        ("statefulset/orders", ("StatefulSet", "orders"), False),
        ("statefulset/orders", ("StatefulSet", "orders-2"), True),
        ("statefulset/orders", ("Job", "orders"), True),
        ("deployment/orders", ("ReplicaSet", "orders-5d8c7"), False),
        ("deployment/orders", ("ReplicaSet", "orders-audit-5d8c7"), True),
        ("deployment/orders", ("ReplicaSet", "orders-other"), True),
        ("deployment/orders", ("ReplicaSet", "payments-5d8c7"), True),
        ("deployment/orders", ("Job", "orders-5d8c7"), True),
        ("deployment/orders", None, False),
    ],
)
def test_a_pod_of_another_controller_is_no_instance_whatever_its_labels(
    workload: str, owner: tuple[str, str] | None, another: bool
) -> None:
    references: list[dict[str, Any]] = [{"kind": "ConfigMap", "name": "orders"}]
    references += [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    found = {"metadata": {"name": "orders-0", "ownerReferences": references, "labels": {"pod-template-hash": "5d8c7"}}}
    assert of_another(found, WorkloadName.parse(workload)) is another


def workload(mounts: list[dict[str, str]], volumes: list[dict[str, Any]], templates: tuple[str, ...] = ()) -> Workload:
    spec = {"containers": [{"name": "app", "volumeMounts": mounts}], "volumes": volumes}
    found = {
        "metadata": {},
        "spec": {"selector": {}, "template": {"spec": spec}, "volumeClaimTemplates": [{"metadata": {"name": name}} for name in templates]},
    }
    return workload_of(WorkloadName(kind="statefulset", name="orders"), found)


def volume(of: Workload, without_state: tuple[str, ...] = ()) -> tuple[str, str]:
    found = state_volume(of, "app", "/data/state", "orders", without_state)
    return found.lasting, found.name


MOUNT = {"name": "state", "mountPath": "/data"}


def test_a_volume_of_the_pod_is_gone_with_it() -> None:
    assert volume(workload([MOUNT], [{"name": "state", "emptyDir": {}}])) == ("pod", "state")
    assert volume(workload([], [])) == ("pod", "")
    assert volume(workload([{"name": "other", "mountPath": "/data/stat"}], [{"name": "other", "emptyDir": {}}])) == ("pod", "")
    assert volume(workload([{"name": "files", "mountPath": "/data/state/orders/x"}], [{"name": "files", "configMap": {}}])) == ("pod", "")


@pytest.mark.fault("F101")
def test_a_claim_at_the_directory_of_the_application_itself_has_the_state() -> None:
    mount = {"name": "state", "mountPath": "/data/state/orders"}
    assert volume(workload([mount], [], ("state",))) == ("templates", "state")
    outer = {"name": "scratch", "mountPath": "/data"}
    assert volume(workload([outer, mount], [{"name": "scratch", "emptyDir": {}}], ("state",))) == ("templates", "state")


@pytest.mark.fault("F101")
@pytest.mark.parametrize("volumes", [[], [{"name": "deep", "nfs": {}}]])
def test_a_volume_inside_the_state_that_outlives_the_pod_is_refused(volumes: list[dict[str, Any]]) -> None:
    mounts = [MOUNT, {"name": "deep", "mountPath": "/data/state/orders/0_1"}]
    with pytest.raises(ConfigInvalid, match="inside the state in /data/state/orders") as caught:
        volume(workload(mounts, [{"name": "state", "emptyDir": {}}, *volumes], () if volumes else ("deep",)), ("deep",))
    assert caught.value.facts["volume"] == "deep"


@pytest.mark.fault("F101")
def test_a_volume_that_a_link_may_lead_to_is_refused_unless_somebody_knows_it() -> None:
    """/var/run is a link to /run in most images: a claim at /run/state has what is written to /var/run/state."""
    of = workload([{"name": "run", "mountPath": "/run/state"}], [{"name": "run", "persistentVolumeClaim": {"claimName": "run"}}])
    with pytest.raises(ConfigInvalid, match="volumes_without_state"):
        volume(of)
    assert volume(of, ("run",)) == ("pod", "")


def test_claims_outlive_pods() -> None:
    assert volume(workload([MOUNT], [], ("state",))) == ("templates", "state")
    assert volume(workload([MOUNT], [{"name": "state", "persistentVolumeClaim": {"claimName": "shared"}}])) == ("claim", "shared")


def test_the_innermost_mount_counts() -> None:
    mounts = [{"name": "inner", "mountPath": "/data/state"}, {"name": "outer", "mountPath": "/data"}]
    volumes = [{"name": "outer", "emptyDir": {}}, {"name": "inner", "persistentVolumeClaim": {"claimName": "shared"}}]
    assert volume(workload(mounts, volumes)) == ("claim", "shared")


@pytest.mark.fault("F101")
def test_a_volume_that_is_mounted_read_only_has_no_state() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "shared"}}
    with pytest.raises(ConfigInvalid, match=r"mounted read-only at /data: "):
        volume(workload([MOUNT | {"readOnly": True}], [{"name": "state", **claim}]))
    beside = {"name": "rules", "mountPath": "/rules", "readOnly": True}
    volumes = [{"name": "state", "emptyDir": {}}, {"name": "rules", **claim}]
    assert volume(workload([MOUNT, beside], volumes)) == ("pod", "state")
    with pytest.raises(ConfigInvalid, match="inside the state"):
        volume(workload([MOUNT, beside | {"mountPath": "/data/state/orders/0_1"}], volumes))


def test_an_ephemeral_volume_is_gone_with_its_pod_and_of_an_inline_one_only_the_driver_knows() -> None:
    assert volume(workload([MOUNT], [{"name": "state", "ephemeral": {"volumeClaimTemplate": {}}}])) == ("pod", "state")
    with pytest.raises(ConfigInvalid, match="only its driver knows"):
        volume(workload([MOUNT], [{"name": "state", "csi": {}}]))


@pytest.mark.parametrize("kind", ["hostPath", "nfs", "csi"])
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


def status_of(kind: str, status: dict[str, Any], **spec: Any) -> Workload:
    made = found()
    return workload_of(WorkloadName.parse(f"{kind}/orders"), {**made, "spec": made["spec"] | spec, "status": status})


@pytest.mark.fault("F108")
@pytest.mark.parametrize(
    ("strategy", "revisions", "held"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, ("old", "new"), True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 5}}, ("old", "old"), True),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, ("new", "new"), False),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, ("old", "new"), False),
        ({"type": "RollingUpdate"}, ("old", "new"), False),
        ({"type": "OnDelete"}, ("old", "new"), True),
        ({"type": "OnDelete"}, ("new", "new"), False),
        ({"type": "OnDelete"}, (), False),
    ],
)
def test_an_update_that_its_owner_holds_is_one_with_pods_of_an_older_template(
    strategy: dict[str, Any], revisions: tuple[str, ...], held: bool
) -> None:
    workload = status_of("statefulset", {"updateRevision": "new", "currentRevision": "old"}, updateStrategy=strategy)
    pods = [pod_of(labelled(f"orders-{number}", revision), "app") for number, revision in enumerate(revisions)]
    assert bool(held_update(workload, pods)) is held


@pytest.mark.fault("F111")
def test_a_pod_says_how_often_its_own_container_was_started_again() -> None:
    counted = [{"name": name, "state": {}, "restartCount": count} for name, count in (("app", 2), ("proxy", 7))]
    one = labelled("orders-0", "new")
    assert pod_of({**one, "status": {"containerStatuses": counted}}, "app").restarts == 2
    assert pod_of(one, "app").restarts == 0


def labelled(name: str, revision: str) -> dict[str, Any]:
    labels = {"controller-revision-hash": revision}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}


@pytest.mark.fault("F108")
@pytest.mark.parametrize(("paused", "updated", "held"), [(True, 1, True), (True, 0, False), (True, 3, False), (False, 1, False)])
def test_a_rollout_that_is_paused_half_way_is_held(paused: bool, updated: int, held: bool) -> None:
    workload = status_of("deployment", {"replicas": 3, "updatedReplicas": updated}, paused=paused)
    assert bool(held_update(workload, ())) is held
