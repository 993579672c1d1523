"""Pods that a git repository owns. On a real control plane."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import ManagedByAnother
from tests.support.applications.states import RUNNING, started, states
from tests.support.kubernetes.objects import define

pytestmark = pytest.mark.deep
ARGO = ("argoproj.io", "v1alpha1", "Application", "applications")
FLUX = ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations")


@pytest.mark.parametrize(
    ("kind", "labels", "annotations", "going", "suspended", "named"),
    [
        (
            ARGO,
            {},
            {"argocd.argoproj.io/tracking-id": "{namespace}_shop:apps/StatefulSet:x/counting"},
            {"syncPolicy": {"automated": {"selfHeal": True}}},
            {"syncPolicy": {"automated": None}},
            "Argo CD Application {namespace}/shop",
        ),
        (
            FLUX,
            {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "{namespace}"},
            {},
            {"suspend": False},
            {"suspend": True},
            "Flux Kustomization {namespace}/shop",
        ),
    ],
    ids=["argo", "flux"],
)
def test_what_a_git_repository_owns_is_refused_by_name_unless_suspended(pods, kind, labels, annotations, going, suspended, named):
    one = pods()
    group, version, name, _ = kind
    path = define(one.api, one.namespace, *kind)
    one.api.post(path, {"apiVersion": f"{group}/{version}", "kind": name, "metadata": {"name": "shop"}, "spec": going})

    def filled(texts):
        return {key: text.format(namespace=one.namespace) for key, text in texts.items()}

    one.api.patch(one.own(), {"metadata": {"labels": filled(labels), "annotations": filled(annotations)}})
    application = started(one)
    with pytest.raises(ManagedByAnother, match=named.format(namespace=one.namespace)) as caught:
        application.stop(timeout=20)
    assert "suspend" in str(caught.value)
    assert states(application) == [RUNNING, RUNNING]
    assert [found.kind for found in application.preflight(stops=True)] == ["managed-elsewhere"]
    one.api.patch(f"{path}/shop", {"spec": suspended})
    assert application.preflight(stops=True) == ()
    assert application.stop(timeout=20).clean
