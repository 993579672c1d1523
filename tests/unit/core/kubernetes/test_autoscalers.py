"""Autoscalers: which of them scale the workload, and what proves that they are off or on."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.core.kubernetes.autoscalers import autoscalers_of, scaled_objects_of
from streams_recovery.core.kubernetes.workload import WorkloadName

ORDERS = WorkloadName(kind="statefulset", name="orders")


def scaler(name: str = "a", kind: str | None = "StatefulSet", target: str = "orders", **more: Any) -> dict[str, Any]:
    reference = {"name": target} | ({} if kind is None else {"kind": kind})
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    return {"metadata": metadata, "spec": {"scaleTargetRef": reference, "maxReplicas": 5, **more.pop("spec", {})}, "status": more}


def active(status: str, reason: str) -> dict[str, Any]:
    return {"conditions": [{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": status, "reason": reason}]}


def test_only_those_of_the_workload_count() -> None:
    found = autoscalers_of(ORDERS, [scaler("a"), scaler("b", kind="Deployment"), scaler("c", target="other")])
    assert [one.name for one in found] == ["a"]
    assert (found[0].least, found[0].most) == (1, 5)
    assert autoscalers_of(ORDERS, [scaler(spec={"minReplicas": 0})])[0].least == 0


@pytest.mark.parametrize(
    ("conditions", "off", "on"),
    [
        ({}, False, False),
        (active("False", "ScalingDisabled"), True, False),
        (active("True", "ValidMetricFound"), False, True),
        (active("False", "FailedGetResourceMetric"), False, True),
    ],
)
def test_only_its_own_word_proves_how_it_is(conditions: dict[str, Any], off: bool, on: bool) -> None:
    (found,) = autoscalers_of(ORDERS, [scaler(**conditions)])
    assert (found.proven_off, found.proven_on) == (off, on)


def test_a_scaled_object_that_names_no_kind_means_a_deployment() -> None:
    plain = [scaler(kind=None)]
    assert scaled_objects_of(ORDERS, plain) == ()
    assert len(scaled_objects_of(WorkloadName(kind="deployment", name="orders"), plain)) == 1


@pytest.mark.parametrize(
    ("annotations", "annotated"),
    [
        ({}, False),
        ({"autoscaling.keda.sh/paused": "true"}, True),
        ({"autoscaling.keda.sh/paused": "false"}, False),
        ({"autoscaling.keda.sh/paused-replicas": "0"}, True),
    ],
)
def test_an_annotation_is_a_wish_and_the_condition_is_what_keda_did(annotations: dict[str, str], annotated: bool) -> None:
    (wished,) = scaled_objects_of(ORDERS, [scaler(annotations=annotations)])
    assert (wished.annotated, wished.paused) == (annotated, False)
    (done,) = scaled_objects_of(ORDERS, [scaler(annotations=annotations, conditions=[{"type": "Paused", "status": "True"}])])
    assert done.paused
