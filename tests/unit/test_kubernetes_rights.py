"""The manifest of rights has what the product asks for, and no more."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from streams_recovery.core.kubernetes.rights import rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from tests.support.kubernetes.objects import RIGHTS, uncommented

ORDERS = WorkloadName(kind="deployment", name="orders")
PARTS = {"delete": ("claims: delete",), "job": ("claims: job",), None: ()}


def granted(*parts: str) -> set[tuple[str, str, str, str]]:
    """Verb, group, kind and name of every right in the manifest."""
    found = [one for one in yaml.safe_load_all(uncommented(RIGHTS.read_text(), parts)) if one]
    rules = [rule for one in found if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize("claims", ["delete", "job", None])
@pytest.mark.parametrize("keda", [True, False])
def test_the_manifest_has_each_right_and_no_other(claims: Any, keda: bool) -> None:
    needed = rights_needed(ORDERS, "shop", "orders-streams-recovery", stops=True, claims=claims, keda=keda)
    parts = (*PARTS[claims], *(("KEDA",) if keda else ()))
    assert granted(*parts) == {(right.verb, right.group, right.resource, right.name) for right in needed}


def test_every_object_of_the_manifest_belongs_together() -> None:
    found = [one for one in yaml.safe_load_all(RIGHTS.read_text()) if one]
    assert [one["kind"] for one in found] == ["ConfigMap", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    names = {one["kind"]: one["metadata"]["name"] for one in found}
    assert all(one["roleRef"]["name"] == names[one["roleRef"]["kind"]] for one in found if "roleRef" in one)
    assert names["ConfigMap"] == "orders-streams-recovery"
