"""Autoscalers of a workload: a HorizontalPodAutoscaler of Kubernetes, a ScaledObject of KEDA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams_recovery.core.kubernetes.workload import API_KINDS, WorkloadName

KEDA_GROUP, KEDA_VERSION, KEDA_PLURAL = "keda.sh", "v1alpha1", "scaledobjects"
KEDA_PAUSED: Final = "autoscaling.keda.sh/paused"
_KEDA_PAUSED_AT: Final = "autoscaling.keda.sh/paused-replicas"
# What an autoscaler says of itself while its target is at zero.
_OFF: Final = "ScalingDisabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """A HorizontalPodAutoscaler. ``active`` is its condition ScalingActive, ``reason`` the reason of that, both empty before its first look."""

    name: str
    least: int
    most: int
    active: str
    reason: str

    @property
    def proven_off(self) -> bool:
        """True when it says that it leaves a workload at zero alone."""
        return self.active == "False" and self.reason == _OFF

    @property
    def proven_on(self) -> bool:
        """True when it looked at the workload and is not switched off by it. It may still lack metrics."""
        return self.active != "" and self.reason != _OFF

    def __str__(self) -> str:
        return (
            f"HorizontalPodAutoscaler {self.name} (ScalingActive {self.active or 'not known'}{f', {self.reason}' if self.reason else ''})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledObject:
    """A ScaledObject. ``annotated`` is true when its annotation pauses it, ``paused`` when KEDA says that it is."""

    name: str
    annotated: bool
    paused: bool

    def __str__(self) -> str:
        return f"ScaledObject {self.name} of KEDA"


def autoscalers_of(target: WorkloadName, found: Iterable[Mapping[str, Any]]) -> tuple[Autoscaler, ...]:
    """Those that scale the workload."""
    return tuple(_autoscaler(one) for one in found if _targets(one["spec"]["scaleTargetRef"], target, default=""))


def scaled_objects_of(target: WorkloadName, found: Iterable[Mapping[str, Any]]) -> tuple[ScaledObject, ...]:
    """Those that scale the workload. A ScaledObject that names no kind means a Deployment."""
    return tuple(_scaled_object(one) for one in found if _targets(one["spec"]["scaleTargetRef"], target, default="Deployment"))


def _targets(reference: Mapping[str, Any], target: WorkloadName, *, default: str) -> bool:
    return reference.get("name") == target.name and (reference.get("kind") or default) == API_KINDS[target.kind]


def _autoscaler(found: Mapping[str, Any]) -> Autoscaler:
    spec, condition = found["spec"], _condition(found, "ScalingActive")
    return Autoscaler(
        name=found["metadata"]["name"],
        least=1 if spec.get("minReplicas") is None else spec["minReplicas"],
        most=spec["maxReplicas"],
        active=condition.get("status") or "",
        reason=condition.get("reason") or "",
    )


def _scaled_object(found: Mapping[str, Any]) -> ScaledObject:
    annotations = found["metadata"].get("annotations") or {}
    return ScaledObject(
        name=found["metadata"]["name"],
        annotated=annotations.get(KEDA_PAUSED) == "true" or _KEDA_PAUSED_AT in annotations,
        paused=_condition(found, "Paused").get("status") == "True",
    )


def _condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})
