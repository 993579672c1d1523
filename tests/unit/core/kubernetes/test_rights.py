"""Rights: what each use of an application needs, and what is said of one that is missing."""

from __future__ import annotations

from typing import Any

from streams_recovery.core.kubernetes.rights import findings_of, rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from streams_recovery.core.preflight.findings import PreflightSeverity

ORDERS = WorkloadName(kind="deployment", name="orders")


def needed(**how: Any) -> set[str]:
    given = {"stops": True, "claims": None, "keda": False, **how}
    return {str(right) for right in rights_needed(ORDERS, "shop", "orders-streams-recovery", **given)}


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


def test_a_finding_names_the_right_and_what_for() -> None:
    rights = rights_needed(ORDERS, "shop", "record", stops=True, claims=None, keda=False)
    found = {finding.text.split(",")[0]: finding.severity for finding in findings_of(rights)}
    assert found["this may not patch deployments/scale.apps orders in namespace shop"] is PreflightSeverity.BLOCKING
    assert found["this may not get nodes in the cluster"] is PreflightSeverity.WARNING
    assert len(found) == len(rights)
    assert findings_of(()) == ()
