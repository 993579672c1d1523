"""Pods: what proves that one is gone, and how its container ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.pods import ContainerEnd, Pod, application_container, in_slots, node_state, of_another, pod_of
from streams_recovery.core.kubernetes.workload import WorkloadName

ENDS_BY = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def pod(name: str = "orders-0", *, phase: str = "Running", created: str = "", states: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    statuses = [{"name": container, "state": state} for container, state in (states or {"app": {"running": {}}}).items()]
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
    assert found.ended == ContainerEnd(exit_code=143, reason="Error")
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
    found = {"metadata": {"name": "orders-0", "ownerReferences": references}}
    assert of_another(found, WorkloadName.parse(workload)) is another
