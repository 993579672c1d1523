"""Autoscalers: which of them scale the workload, and what proves that they are off or on. Rights: what each use of an application needs, and what is said of
one that is missing.
"""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.core.kubernetes.controllers import (
    autoscalers_of,
    findings_of,
    rights_needed,
    scaled_objects_of,
)
from streams_recovery.core.kubernetes.workload import WorkloadName
from streams_recovery.core.preflight.findings import PreflightSeverity

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
        ({"autoscaling.keda.sh/paused": "1"}, True),
        ({"autoscaling.keda.sh/paused": "whatever"}, True),
        ({"autoscaling.keda.sh/paused": "F"}, False),
        ({"autoscaling.keda.sh/paused-replicas": "0"}, True),
        ({"autoscaling.keda.sh/paused-replicas": "3"}, False),
    ],
)
def test_an_annotation_is_a_wish_and_the_condition_is_what_keda_did(annotations: dict[str, str], annotated: bool) -> None:
    (wished,) = scaled_objects_of(ORDERS, [scaler(annotations=annotations)])
    assert (wished.annotated, wished.paused) == (annotated, False)
    (done,) = scaled_objects_of(ORDERS, [scaler(annotations=annotations, conditions=[{"type": "Paused", "status": "True"}])])
    assert done.paused


@pytest.mark.fault("F102")
@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"autoscaling.keda.sh/paused-replicas": "3"}, "holds the workload at 3 pods"),
        ({"autoscaling.keda.sh/paused-replicas": "3", "autoscaling.keda.sh/paused": "true"}, "holds the workload at 3 pods"),
        ({"autoscaling.keda.sh/paused-scale-in": "true"}, "calls it paused all the time"),
        ({"autoscaling.keda.sh/paused-scale-out": "true", "autoscaling.keda.sh/paused": "true"}, "calls it paused all the time"),
        ({"autoscaling.keda.sh/paused-scale-out": "false"}, ""),
        ({"autoscaling.keda.sh/paused-replicas": "0"}, ""),
        ({"autoscaling.keda.sh/paused": "true"}, ""),
    ],
)
def test_what_keda_would_not_leave_at_zero_has_a_problem(annotations: dict[str, str], problem: str) -> None:
    (found,) = scaled_objects_of(ORDERS, [scaler(annotations=annotations)])
    assert (problem in found.problem) if problem else not found.problem


DEPLOYED = WorkloadName(kind="deployment", name="orders")


def needed(**how: Any) -> set[str]:
    given = {"stops": True, "claims": None, "keda": False, **how}
    return {str(right) for right in rights_needed(DEPLOYED, "shop", "orders-streams-recovery", **given)}


def test_one_that_is_only_held_is_only_looked_at() -> None:
    assert needed(stops=False) == {
        "get deployments.apps orders in namespace shop",
        "list pods in namespace shop",
        "get configmaps orders-streams-recovery in namespace shop",
    }


def test_stopping_never_needs_to_change_the_workload_itself() -> None:
    assert "patch deployments/scale.apps orders in namespace shop" in needed()
    assert not any(right.startswith(("patch deployments.apps", "update", "create")) for right in needed())


def test_each_way_to_wipe_has_rights_of_its_own() -> None:
    assert needed(claims="delete") - needed() == {
        "list persistentvolumeclaims in namespace shop",
        "delete persistentvolumeclaims in namespace shop",
    }
    assert {right.split()[0] for right in needed(claims="job") - needed() if "jobs.batch" in right} == {"create", "get", "delete"}
    assert {right.split()[0] for right in needed(keda=True) - needed()} == {"list", "patch"}


@pytest.mark.remedy("right-kubernetes")
def test_a_finding_names_the_right_and_what_for() -> None:
    rights = rights_needed(DEPLOYED, "shop", "record", stops=True, claims=None, keda=False)
    found = {finding.text.split(",")[0]: finding.severity for finding in findings_of(rights)}
    assert found["this may not patch deployments/scale.apps orders in namespace shop"] is PreflightSeverity.BLOCKING
    assert found["this may not get nodes in the cluster"] is PreflightSeverity.WARNING
    assert len(found) == len(rights)
    assert findings_of(()) == ()
