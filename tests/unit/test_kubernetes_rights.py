"""The manifest of rights, and the chart, have what the product asks for, and no more."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from streams_recovery.core.kubernetes.others import rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from tests.support.deploy.documents import DEPLOY, granted, needed, rules_of
from tests.support.kubernetes.objects import RIGHTS, uncommented

ORDERS = WorkloadName(kind="deployment", name="orders")
CHART = DEPLOY / "helm" / "kafka-streams-recovery" / "files" / "workload-rights.yaml"
PARTS = {"delete": ("claims: delete",), "job": ("claims: job",), None: ()}


@pytest.mark.parametrize("claims", ["delete", "job", None])
@pytest.mark.parametrize("keda", [True, False])
def test_the_manifest_has_each_right_and_no_other(claims: Any, keda: bool) -> None:
    parts = (*PARTS[claims], *(("KEDA",) if keda else ()))
    documents = [one for one in yaml.safe_load_all(uncommented(RIGHTS.read_text(), parts)) if one]
    wanted = rights_needed(ORDERS, "shop", "orders-streams-recovery", stops=True, claims=claims, keda=keda)
    assert granted(rules_of(documents)) == needed(wanted)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
@pytest.mark.parametrize("claims", ["delete", "job", None])
@pytest.mark.parametrize("keda", [True, False])
def test_the_chart_has_each_right_and_no_other(kind: Any, claims: Any, keda: bool) -> None:
    text = CHART.read_text().replace("KIND", kind).replace("NAME", "orders").replace("RECORD", "orders-streams-recovery")
    rights = yaml.safe_load(text)
    parts = ("always", "nodes", *((claims,) if claims else ()), *(("keda",) if keda else ()))
    workload = WorkloadName(kind=kind, name="orders")
    wanted = rights_needed(workload, "shop", "orders-streams-recovery", stops=True, claims=claims, keda=keda)
    assert granted(rule for part in parts for rule in rights[part]) == needed(wanted)


def test_every_object_of_the_manifest_belongs_together() -> None:
    found = [one for one in yaml.safe_load_all(RIGHTS.read_text()) if one]
    assert [one["kind"] for one in found] == ["ConfigMap", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    names = {one["kind"]: one["metadata"]["name"] for one in found}
    assert all(one["roleRef"]["name"] == names[one["roleRef"]["kind"]] for one in found if "roleRef" in one)
    assert names["ConfigMap"] == "orders-streams-recovery"
