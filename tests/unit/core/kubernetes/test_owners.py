"""Argo CD and Flux: which of their objects owns a workload, whether it would scale it up again, and what suspends it and gives it back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.kubernetes.owners import (
    MANAGER,
    Owned,
    Owner,
    Suspension,
    is_asked_to_refresh,
    is_busy,
    is_suspended,
    leaves_alone,
    makers_of,
    owners_of,
    put_back_by,
    refresh_request,
    still_for,
)
from streams_recovery.core.kubernetes.workload import Workload, WorkloadName, workload_of


def workload(*, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, manager: str = "kubectl") -> Workload:
    found = {
        "metadata": {"labels": labels or {}, "annotations": annotations or {}, "managedFields": [{"manager": manager}]},
        "spec": {"selector": {}, "template": {}},
    }
    return workload_of(WorkloadName(kind="deployment", name="orders"), found)


OWN = Owned(group="apps", kind="Deployment", namespace="x", name="orders")
OTHER = Owned(group="apps", kind="StatefulSet", namespace="x", name="payments")


def owners(**of: Any) -> list[str]:
    return [str(owner) for owner in owners_of(workload(**of), OWN, "argocd")]


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


@pytest.mark.parametrize("rest", ["apps/Deployment:x/payments", "apps/StatefulSet:x/orders", "apps/Deployment:y/orders", "", "x"])
def test_a_tracking_id_of_another_object_is_none(rest: str) -> None:
    """Such an annotation came with a copy: Argo CD does not count that object to the Application."""
    annotations = {"argocd.argoproj.io/tracking-id": f"shop:{rest}"}
    assert owners(annotations=annotations) == []
    assert owners(annotations=annotations, labels={"argocd.argoproj.io/instance": "own"}) == ["Argo CD Application argocd/own"]


def test_an_object_that_flux_is_to_leave_alone_has_no_owner() -> None:
    labels = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
    assert owners(labels=labels, annotations={"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}) == []
    release = {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "shop"}
    found = owners(labels=labels | release, annotations={"kustomize.toolkit.fluxcd.io/reconcile": "disabled"})
    assert found == ["Flux HelmRelease shop/shop"], "the Kustomization leaves it alone, the HelmRelease does not"


def owner(tool: str, name: str = "shop", kind: str = "Application") -> Owner:
    return Owner(tool=tool, kind=kind, group="argoproj.io", version="v", plural="p", namespace="n", name=name)


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
    (flux,) = owners_of(workload(labels={"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "x"}), OWN, "a")
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
    suspension = noted(one, found)
    assert not is_suspended(one, found)
    assert suspension.undo(found, OWN) is None
    at_rest = merged(found, suspension.patch(found, OWN))
    assert is_suspended(one, at_rest)
    assert spec_of(after(at_rest, suspension.undo(at_rest, OWN))) == found["spec"]
    assert codec.loads(Suspension, codec.dumps(suspension), where="here") == suspension


def noted(one: Owner, found: Mapping[str, Any]) -> Suspension:
    suspension = Suspension.of(one, found)
    assert suspension is not None
    return suspension


def after(found: Any, patch: Mapping[str, Any] | None) -> Any:
    return found if patch is None else merged(found, patch)


def spec_of(found: Mapping[str, Any]) -> Any:
    return found["spec"]


AT_WORK = [
    ("Flux", {"spec": {"interval": "5m"}}),
    ("Flux", {"spec": {"interval": "5m", "suspend": False}}),
    ("Argo CD", {"spec": {"syncPolicy": {"automated": {"selfHeal": True}}}}),
]
each_tool = pytest.mark.parametrize(("tool", "found"), AT_WORK)


@each_tool
@given(data=st.data())
def test_an_owner_of_several_is_given_back_behind_the_last_one(tool: str, found: dict[str, Any], data: st.DataObject) -> None:
    one, workloads = owner(tool), [OWN, OTHER, Owned(group="apps", kind="Deployment", namespace="y", name="orders")]
    now, stored = found, dict[Owned, Suspension]()
    for of in data.draw(st.lists(st.sampled_from(workloads), max_size=12)):
        if of in stored:
            now = after(now, stored.pop(of).undo(now, of))
        else:
            stored[of] = noted(one, now)
            now = merged(now, stored[of].patch(now, of))
        assert is_suspended(one, now) is bool(stored)
        if not stored:
            assert spec_of(now) == found["spec"]
            assert not [name for name in now["metadata"]["annotations"] if "suspended-for" in name]


@each_tool
def test_what_a_person_has_suspended_is_nobody_else_s(tool: str, found: dict[str, Any]) -> None:
    one = owner(tool)
    by_hand = merged(found, {"spec": {"suspend": True} if tool == "Flux" else {"syncPolicy": {"automated": None}}})
    assert Suspension.of(one, by_hand) is None
    old = noted(one, found)
    assert old.undo(by_hand, OWN) is None, "a record without the mark"
    assert old.undo(merged(found, old.patch(found, OTHER)), OWN) is None, "the mark of another one"


@each_tool
def test_marks_that_a_person_has_left_on_one_at_work_count_no_more(tool: str, found: dict[str, Any]) -> None:
    one, old = owner(tool), noted(owner(tool), found)
    first = merged(found, old.patch(found, OTHER))
    resumed = merged(first, {"spec": {"suspend": False} if tool == "Flux" else {"syncPolicy": {"automated": {"prune": True}}}})
    assert spec_of(after(resumed, old.undo(resumed, OTHER))) == spec_of(resumed), "a change by hand stays"
    second = noted(one, resumed)
    both = merged(resumed, second.patch(resumed, OWN))
    assert still_for(both, OWN) == still_for(both, OTHER) == ()
    assert old.undo(both, OTHER) is None
    assert spec_of(after(both, second.undo(both, OWN))) == spec_of(resumed)
    shared = merged(first, noted(one, first).patch(first, OWN))
    assert still_for(shared, OWN) == (OTHER.mark,)


def test_a_suspension_that_somebody_else_wrote_since_is_theirs() -> None:
    one, found = owner("Flux"), {"spec": {"interval": "5m"}}
    suspension = noted(one, found)
    at_rest = merged(found, suspension.patch(found, OWN))
    at_rest["metadata"]["managedFields"] = [{"manager": MANAGER, "fieldsV1": {"f:spec": {"f:suspend": {}}}}]
    assert noted(one, at_rest) == suspension
    at_rest["metadata"]["managedFields"] = [{"manager": "flux", "fieldsV1": {"f:spec": {"f:suspend": {}}}}]
    assert Suspension.of(one, at_rest) is None
    assert spec_of(after(at_rest, suspension.undo(at_rest, OWN)))["suspend"] is True


@pytest.mark.parametrize("forged", ["", "{", "[1]", '"x"', "true", "1", "null" * 2000, '{"a": "' + "x" * 5000 + '"}'])
@each_tool
def test_a_forged_mark_writes_nothing_that_cannot_have_been(tool: str, found: dict[str, Any], forged: str) -> None:
    one, suspension = owner(tool), noted(owner(tool), found)
    at_rest = merged(found, suspension.patch(found, OWN))
    at_rest["metadata"]["annotations"][OWN.mark] = forged
    assert Suspension.of(one, at_rest) is None
    assert spec_of(after(at_rest, suspension.undo(at_rest, OWN))) == found["spec"]
    both = Suspension(owner=one, was=forged).undo(at_rest, OWN)
    assert both is not None
    assert set(both) == {"metadata", "spec"}
    assert not (after(at_rest, both)["spec"].get("syncPolicy") or {}).get("automated")
    assert "suspend" not in after(at_rest, both)["spec"]


def test_a_patch_is_for_the_version_that_was_looked_at() -> None:
    found: dict[str, Any] = {"metadata": {"resourceVersion": "7"}, "spec": {"syncPolicy": {"automated": {}}}}
    suspension = noted(owner("Argo CD"), found)
    patch = suspension.patch(found, OWN)
    undo = suspension.undo({**merged(found, patch), "metadata": {**patch["metadata"], "resourceVersion": "8"}}, OWN)
    assert undo is not None
    assert (patch["metadata"]["resourceVersion"], undo["metadata"]["resourceVersion"]) == ("7", "8")
    assert not is_asked_to_refresh(found)
    assert is_asked_to_refresh(merged(found, patch))
    assert is_asked_to_refresh(merged(found, refresh_request(found)))


NAMED = st.builds(
    Owned,
    group=st.just("apps"),
    kind=st.sampled_from(["Deployment", "StatefulSet"]),
    namespace=st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True),
    name=st.from_regex(r"[a-z]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True),
)


@given(NAMED, NAMED)
def test_a_mark_is_a_name_that_kubernetes_takes_and_no_other_workload_has(one: Owned, other: Owned) -> None:
    prefix, _, name = one.mark.partition("/")
    assert prefix == "kafka-streams-recovery"
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", name)
    assert (one.mark == other.mark) is (one == other)


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
    assert makers_of(owner("Argo CD", name="copied"), marks, "argocd") == ()
    assert makers_of(owner("Argo CD"), {}, "argocd") == ()
    assert makers_of(owner("Flux"), marks, "argocd") == ()


IGNORED = {"group": "argoproj.io", "kind": "Application", "jsonPointers": ["/spec/syncPolicy"]}
HEALS = {"automated": {"selfHeal": True}}
KEPT = {"preservedFields": {"annotations": ["other", OWN.mark]}}
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
        ("ApplicationSet", {"ignoreApplicationDifferences": [{"jsonPointers": ["/spec/syncPolicy/automated"]}], **KEPT}, True),
        ("ApplicationSet", {"ignoreApplicationDifferences": [{"jsonPointers": ["/spec/syncPolicy/automated"]}]}, False),
        ("ApplicationSet", {"ignoreApplicationDifferences": [{"jsonPointers": ["/spec/source"]}], **KEPT}, False),
        ("ApplicationSet", {"syncPolicy": {"applicationsSync": "create-only"}}, True),
    ],
)
def test_what_makes_an_application_may_leave_its_automated_sync_alone(kind: str, spec: dict[str, Any], alone: bool) -> None:
    assert leaves_alone(owner("Argo CD", name="root", kind=kind), {"spec": spec}, "shop", OWN.mark) is alone
