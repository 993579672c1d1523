"""Autoscalers of a workload of Kubernetes, and the rights that stopping, starting and wiping an application need there. An autoscaler is a
HorizontalPodAutoscaler of Kubernetes, or a ScaledObject of KEDA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from streams_recovery.core.kubernetes.workload import API_KINDS, WorkloadName
from streams_recovery.core.preflight.findings import PreflightFinding, blocking_finding, warning
from streams_recovery.core.remedies.access import grant_in_kubernetes

KEDA_GROUP, KEDA_VERSION, KEDA_PLURAL = "keda.sh", "v1alpha1", "scaledobjects"
KEDA_PAUSED: Final = "autoscaling.keda.sh/paused"
_KEDA_PAUSED_AT: Final = "autoscaling.keda.sh/paused-replicas"
_KEDA_PAUSED_PARTLY: Final = ("autoscaling.keda.sh/paused-scale-in", "autoscaling.keda.sh/paused-scale-out")
# What Go's strconv.ParseBool takes for false. Whatever is no boolean at all pauses (apis/keda/v1alpha1, NeedToBePausedByAnnotation).
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
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
    """A ScaledObject. ``annotated`` is true when its annotation pauses it at zero, ``paused`` when KEDA says that it is. ``problem`` is why it cannot be
    paused for a stop, empty when it can, and ``annotation`` is to blame.
    """

    name: str
    annotated: bool
    paused: bool
    problem: str = ""
    annotation: str = ""

    def __str__(self) -> str:
        return f"ScaledObject {self.name} of KEDA"


def autoscalers_of(target: WorkloadName, found: Iterable[Mapping[str, Any]]) -> tuple[Autoscaler, ...]:
    """The autoscalers of the workload."""
    return tuple(_autoscaler(one) for one in found if _targets(one["spec"]["scaleTargetRef"], target, default=""))


def scaled_objects_of(target: WorkloadName, found: Iterable[Mapping[str, Any]]) -> tuple[ScaledObject, ...]:
    """The objects of KEDA that scale the workload. A ScaledObject that names no kind means a Deployment."""
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
    annotation, problem = _unpausable(annotations)
    return ScaledObject(
        name=found["metadata"]["name"],
        annotated=_pauses(annotations.get(KEDA_PAUSED, "false")) or annotations.get(_KEDA_PAUSED_AT) == "0",
        paused=_condition(found, "Paused").get("status") == "True",
        problem=problem,
        annotation=annotation,
    )


def _pauses(value: str) -> bool:
    return value not in _FALSE


def _unpausable(annotations: Mapping[str, str]) -> tuple[str, str]:
    """The annotation with which it cannot be paused, and why; both empty without one."""
    held = annotations.get(_KEDA_PAUSED_AT, "0")
    if held != "0":
        # It counts before any other annotation: KEDA brings the workload back to that many pods.
        text = f"its annotation {_KEDA_PAUSED_AT} holds the workload at {held[:20]} pods, so KEDA would start it again while it is to be stopped"
        return _KEDA_PAUSED_AT, text
    partly = [name for name in _KEDA_PAUSED_PARTLY if _pauses(annotations.get(name, "false"))]
    if partly:
        # Then its condition Paused is true all the time, whatever it does (controllers/keda, reconcileScaledObject).
        text = f"with its annotation {partly[0]} KEDA calls it paused all the time, so that it leaves the workload alone cannot be proven"
        return partly[0], text
    return "", ""


def _condition(found: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One right. ``namespace`` is empty for one on the whole cluster, ``name`` for one on all objects of the kind. Without one that is not ``blocking``
    less is proven.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    why: str
    name: str = ""
    blocking: bool = True

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {kind}{named} " + (f"in namespace {self.namespace}" if self.namespace else "in the cluster")


def rights_needed(
    workload: WorkloadName, namespace: str, record: str, *, stops: bool, claims: Literal["delete", "job"] | None, keda: bool
) -> tuple[Right, ...]:
    """The rights that are needed. ``stops``: the application may be stopped. ``keda``: the cluster has KEDA."""
    plural = f"{workload.kind}s"

    def right(verb: str, group: str, resource: str, why: str, *, name: str = "") -> Right:
        return Right(verb=verb, group=group, resource=resource, namespace=namespace, name=name, why=why)

    looking = (
        right("get", "apps", plural, "to see the workload", name=workload.name),
        right("list", "", "pods", "to see its pods"),
        right("get", "", "configmaps", "to read what a stop wrote down", name=record),
    )
    if not stops:
        return looking
    stopping = (
        right("patch", "apps", f"{plural}/scale", "to scale it to zero and back", name=workload.name),
        right("watch", "", "pods", "to see the exit codes of containers before their pods are gone"),
        right("delete", "", "pods", "to end a pod that does not end in time"),
        right("patch", "", "configmaps", "to write down the replica count and how the pods ended", name=record),
        right("list", "autoscaling", "horizontalpodautoscalers", "to prove that no autoscaler scales it up meanwhile"),
        Right(
            verb="get",
            group="",
            resource="nodes",
            namespace="",
            why="to know whether the node of a pod that vanished is lost: without it a pod that was deleted by force counts as gone",
            blocking=False,
        ),
    )
    wiping = [right("list", "", "persistentvolumeclaims", "to find the claims with state")] if claims else []
    if claims == "delete":
        wiping.append(right("delete", "", "persistentvolumeclaims", "to delete the claims with state"))
    if claims == "job":
        wiping += [right(verb, "batch", "jobs", "to wipe the claims with state") for verb in ("create", "get", "delete")]
    pausing = [right(verb, KEDA_GROUP, KEDA_PLURAL, "to pause KEDA meanwhile") for verb in ("list", "patch")] if keda else []
    return (*looking, *stopping, *wiping, *pausing)


def findings_of(missing: Iterable[Right]) -> tuple[PreflightFinding, ...]:
    """A finding for each right that is not there."""
    return tuple(
        (blocking_finding if right.blocking else warning)(
            "kubernetes-right", f"this may not {right}, which is needed {right.why}", grant_in_kubernetes()
        )
        for right in missing
    )
