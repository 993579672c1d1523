"""Argo CD and Flux: which of their objects owns a workload, and whether it would scale it up again."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.core.kubernetes.owners import Owner, is_suspended, owners_of
from streams_recovery.core.kubernetes.workload import Workload, WorkloadName, workload_of


def workload(*, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, manager: str = "kubectl") -> Workload:
    found = {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}, "managedFields": [{"manager": manager}]},
        "spec": {"selector": {}, "template": {}},
    }
    return workload_of(WorkloadName(kind="deployment", name="orders"), found)


def owners(**of: Any) -> list[str]:
    return [str(owner) for owner in owners_of(workload(**of), "argocd")]


def test_most_workloads_have_none() -> None:
    assert owners(labels={"app.kubernetes.io/instance": "orders", "app.kubernetes.io/managed-by": "Helm"}) == []


@pytest.mark.parametrize(
    ("of", "named"),
    [
        ({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:x/orders"}}, "Argo CD Application argocd/shop"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "team_shop:apps/Deployment:x/orders"}}, "Argo CD Application team/shop"),
        ({"labels": {"argocd.argoproj.io/instance": "shop"}}, "Argo CD Application argocd/shop"),
        ({"manager": "argocd-controller"}, "Argo CD"),
        ({"manager": "argocd-controller", "labels": {"app.kubernetes.io/instance": "shop"}}, "Argo CD Application argocd/shop"),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}},
            "Flux Kustomization flux-system/shop",
        ),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "shop"}}, "Flux HelmRelease shop/shop"),
    ],
)
def test_an_owner_is_named(of: dict[str, Any], named: str) -> None:
    assert owners(**of) == [named]


def test_an_object_that_flux_is_to_leave_alone_has_no_owner() -> None:
    labels = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
    assert owners(labels=labels, annotations={"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}) == []
    release = {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "shop"}
    found = owners(labels=labels | release, annotations={"kustomize.toolkit.fluxcd.io/reconcile": "disabled"})
    assert found == ["Flux HelmRelease shop/shop"], "the Kustomization leaves it alone, the HelmRelease does not"


def owner(tool: str) -> Owner:
    return Owner(tool=tool, kind="Application", group="g", version="v", plural="p", namespace="n", name="shop")


@pytest.mark.parametrize(
    ("tool", "spec", "suspended"),
    [
        ("Argo CD", {}, True),
        ("Argo CD", {"syncPolicy": {"automated": {}}}, False),
        ("Argo CD", {"syncPolicy": {"automated": {"selfHeal": True}}}, False),
        ("Argo CD", {"syncPolicy": {"automated": {"enabled": False, "selfHeal": True}}}, True),
        ("Flux", {}, False),
        ("Flux", {"suspend": False}, False),
        ("Flux", {"suspend": True}, True),
    ],
)
def test_whether_it_would_write_by_itself(tool: str, spec: dict[str, Any], suspended: bool) -> None:
    assert is_suspended(owner(tool), {"spec": spec}) is suspended


def test_what_a_person_does_first_is_a_command() -> None:
    assert owner("Argo CD").suspend == "argocd app set shop --sync-policy none"
    assert owners_of(workload(labels={"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "x"}), "a")[0].suspend == (
        "flux suspend helmrelease shop -n x"
    )
