"""The workload: how it selects its pods, and who has scaled it."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.workload import WorkloadName, selector_text, workload_of

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
