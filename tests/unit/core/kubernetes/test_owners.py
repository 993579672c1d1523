"""Argo CD and Flux: which of their objects owns a workload, whether it would scale it up again, and what suspends it and gives it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.kubernetes.owners import (
    Owner,
    Suspension,
    is_busy,
    is_suspended,
    leaves_alone,
    makers_of,
    owners_of,
    put_back_by,
)
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


def owner(tool: str, name: str = "shop", kind: str = "Application") -> Owner:
    return Owner(tool=tool, kind=kind, group="g", version="v", plural="p", namespace="n", name=name)


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


def test_what_a_person_does_is_a_command() -> None:
    argo, automated = owner("Argo CD"), {"spec": {"syncPolicy": {"automated": {"selfHeal": True, "prune": False}}}}
    assert argo.suspend == "argocd app set n/shop --sync-policy none"
    assert argo.resume(automated) == "argocd app set n/shop --sync-policy automated --self-heal"
    assert argo.resume(None) == "argocd app set n/shop --sync-policy automated"
    (flux,) = owners_of(workload(labels={"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "x"}), "a")
    assert (flux.suspend, flux.resume(None)) == ("flux suspend helmrelease shop -n x", "flux resume helmrelease shop -n x")


def merged(found: Any, patch: Any) -> Any:
    """What the API server makes of it (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    kept = dict(found) if isinstance(found, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            kept.pop(key, None)
        else:
            kept[key] = merged(kept.get(key), value)
    return kept


FLUX_AT_WORK = st.fixed_dictionaries({"interval": st.just("5m")}, optional={"suspend": st.sampled_from([False])})
AUTOMATED = st.fixed_dictionaries(
    {}, optional={name: st.booleans() for name in ("selfHeal", "prune", "allowEmpty")} | {"enabled": st.sampled_from([True])}
)
ARGO_AT_WORK = st.fixed_dictionaries(
    {
        "syncPolicy": st.fixed_dictionaries(
            {"automated": AUTOMATED}, optional={"syncOptions": st.lists(st.sampled_from(["A=true", "B=false"]))}
        )
    }
)


@given(
    st.one_of(st.tuples(st.just("Flux"), FLUX_AT_WORK), st.tuples(st.just("Argo CD"), ARGO_AT_WORK)).map(
        lambda made: (owner(made[0]), {"spec": made[1]})
    )
)
def test_a_suspension_is_given_back_to_the_letter(made: tuple[Owner, dict[str, Any]]) -> None:
    one, found = made
    suspension = Suspension.of(one, found)
    assert not is_suspended(one, found)
    assert not suspension.holds(found)
    at_rest = merged(found, suspension.patch)
    assert is_suspended(one, at_rest)
    assert suspension.holds(at_rest)
    assert merged(at_rest, suspension.undo) == found
    assert codec.loads(Suspension, codec.dumps(suspension), where="here") == suspension


@pytest.mark.parametrize(
    ("tool", "found", "busy"),
    [
        ("Flux", {"status": {"conditions": [{"type": "Reconciling", "status": "True"}]}}, True),
        ("Flux", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, False),
        ("Flux", {}, False),
        ("Argo CD", {"operation": {"sync": {}}}, True),
        ("Argo CD", {"status": {"operationState": {"phase": "Running"}}}, True),
        ("Argo CD", {"status": {"operationState": {"phase": "Succeeded"}}}, False),
        ("Argo CD", {}, False),
    ],
)
def test_what_was_begun_before_a_suspension_is_seen(tool: str, found: dict[str, Any], busy: bool) -> None:
    assert is_busy(owner(tool), found) is busy


def applied(manager: str, fields: dict[str, Any], operation: str = "Apply") -> dict[str, Any]:
    return {"metadata": {"managedFields": [{"manager": manager, "operation": operation, "fieldsV1": fields}]}}


@pytest.mark.parametrize(
    ("found", "by"),
    [
        (applied("kustomize-controller", {"f:spec": {"f:suspend": {}}}), "kustomize-controller"),
        (applied("kustomize-controller", {"f:spec": {"f:interval": {}}}), ""),
        (applied("kustomize-controller", {"f:spec": {"f:suspend": {}}}, "Update"), ""),
        (applied("kubectl", {"f:spec": {"f:suspend": {}}}), ""),
        ({}, ""),
    ],
)
def test_who_would_write_over_a_suspension_is_known_by_the_fields_it_has_applied(found: dict[str, Any], by: str) -> None:
    assert put_back_by(owner("Flux"), found) == by


def test_what_makes_an_application_is_known() -> None:
    marks = {"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "root:argoproj.io/Application:n/shop"}}}
    assert [str(one) for one in makers_of(owner("Argo CD"), marks, "argocd")] == ["Argo CD Application argocd/root"]
    of_set = {"metadata": {"ownerReferences": [{"kind": "ApplicationSet", "name": "teams"}]}}
    assert [str(one) for one in makers_of(owner("Argo CD"), of_set, "argocd")] == ["Argo CD ApplicationSet n/teams"]
    assert makers_of(owner("Argo CD"), {}, "argocd") == ()
    assert makers_of(owner("Flux"), marks, "argocd") == ()


IGNORED = {"group": "argoproj.io", "kind": "Application", "jsonPointers": ["/spec/syncPolicy"]}
HEALS = {"automated": {"selfHeal": True}}
RESPECTS = {**HEALS, "syncOptions": ["RespectIgnoreDifferences=true"]}


@pytest.mark.parametrize(
    ("kind", "spec", "alone"),
    [
        ("Application", {}, True),
        ("Application", {"syncPolicy": HEALS}, False),
        ("Application", {"syncPolicy": HEALS, "ignoreDifferences": [IGNORED]}, False),
        ("Application", {"syncPolicy": RESPECTS, "ignoreDifferences": [IGNORED]}, True),
        ("Application", {"syncPolicy": RESPECTS, "ignoreDifferences": [{**IGNORED, "name": "other"}]}, False),
        ("Application", {"syncPolicy": RESPECTS, "ignoreDifferences": [{**IGNORED, "kind": "Service"}]}, False),
        ("ApplicationSet", {}, False),
        ("ApplicationSet", {"ignoreApplicationDifferences": [{"jsonPointers": ["/spec/syncPolicy/automated"]}]}, True),
        ("ApplicationSet", {"ignoreApplicationDifferences": [{"jsonPointers": ["/spec/source"]}]}, False),
        ("ApplicationSet", {"syncPolicy": {"applicationsSync": "create-only"}}, True),
    ],
)
def test_what_makes_an_application_may_leave_its_automated_sync_alone(kind: str, spec: dict[str, Any], alone: bool) -> None:
    assert leaves_alone(owner("Argo CD", name="root", kind=kind), {"spec": spec}, "shop") is alone
