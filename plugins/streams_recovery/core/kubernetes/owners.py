"""Tools that write a workload's replica count back to what a Git repository says, and whether they are suspended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.kubernetes.workload import Workload

_ARGO_GROUP, _ARGO_VERSION = "argoproj.io", "v1alpha1"
_ARGO_TRACKING: Final = "argocd.argoproj.io/tracking-id"
_ARGO_LABEL: Final = "argocd.argoproj.io/instance"
# What Argo CD before 3.0 tracks by, unless it is told otherwise. Helm and others write it too.
_COMMON_LABEL: Final = "app.kubernetes.io/instance"
_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_FLUX: Final = {
    "kustomize.toolkit.fluxcd.io": ("Kustomization", "kustomizations", "v1"),
    "helm.toolkit.fluxcd.io": ("HelmRelease", "helmreleases", "v2"),
}
_FLUX_DISABLED: Final = "kustomize.toolkit.fluxcd.io/reconcile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object of such a tool. ``name`` is empty when only the tool's name on the workload's fields is known."""

    tool: str
    kind: str
    group: str
    version: str
    plural: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.tool} {self.kind} {self.namespace}/{self.name}" if self.name else self.tool

    @property
    def suspend(self) -> str:
        """What a person does before the workload is stopped."""
        if self.tool == "Argo CD":
            return f"argocd app set {self.name or 'APPLICATION'} --sync-policy none"
        return f"flux suspend {self.kind.lower()} {self.name} -n {self.namespace}"


def owners_of(workload: Workload, argocd_namespace: str) -> tuple[Owner, ...]:
    """Every such object that owns the workload."""
    return (*_argo(workload, argocd_namespace), *_flux(workload))


def is_suspended(owner: Owner, found: Mapping[str, Any]) -> bool:
    """True when the tool will not write to the workload by itself, by its own object."""
    spec = found.get("spec") or {}
    if owner.tool != "Argo CD":
        return spec.get("suspend") is True
    automated = (spec.get("syncPolicy") or {}).get("automated")
    return automated is None or automated.get("enabled") is False


def _argo(workload: Workload, namespace: str) -> tuple[Owner, ...]:
    tracked = workload.annotations.get(_ARGO_TRACKING, "").partition(":")[0] or workload.labels.get(_ARGO_LABEL, "")
    if not tracked and not any("argocd" in manager for manager in workload.managers):
        return ()
    tracked = tracked or workload.labels.get(_COMMON_LABEL, "")
    # An Application outside Argo CD's own namespace is tracked as NAMESPACE_NAME.
    place, _, name = tracked.rpartition("_")
    return (
        Owner(
            tool="Argo CD",
            kind="Application",
            group=_ARGO_GROUP,
            version=_ARGO_VERSION,
            plural="applications",
            namespace=place or namespace,
            name=name,
        ),
    )


def _flux(workload: Workload) -> tuple[Owner, ...]:
    left_alone = workload.annotations.get(_FLUX_DISABLED) == "disabled"
    return tuple(
        Owner(
            tool="Flux",
            kind=kind,
            group=group,
            version=version,
            plural=plural,
            namespace=workload.labels.get(f"{group}/namespace", ""),
            name=workload.labels[f"{group}/name"],
        )
        for group, (kind, plural, version) in _FLUX.items()
        if f"{group}/name" in workload.labels and not (left_alone and group == _KUSTOMIZE)
    )
