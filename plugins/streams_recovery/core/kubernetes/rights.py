"""Rights in Kubernetes that stopping, starting and wiping an application need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from streams_recovery.core.kubernetes.workload import WorkloadName
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity

CLUSTER = ""


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
    """Those that are needed. ``stops``: the application may be stopped. ``keda``: the cluster has KEDA."""
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
            namespace=CLUSTER,
            why="to know whether the node of a pod that vanished is lost: without it a pod that was deleted by force counts as gone",
            blocking=False,
        ),
    )
    verbs = {"delete": ("delete",), "job": ()}
    wiping = [right("list", "", "persistentvolumeclaims", "to find the claims with state")] if claims else []
    wiping += [right(verb, "", "persistentvolumeclaims", "to delete the claims with state") for verb in verbs.get(claims or "job", ())]
    if claims == "job":
        wiping += [right(verb, "batch", "jobs", "to wipe the claims with state") for verb in ("create", "get", "delete")]
    pausing = [right(verb, "keda.sh", "scaledobjects", "to pause KEDA meanwhile") for verb in ("list", "patch")] if keda else []
    return (*looking, *stopping, *wiping, *pausing)


def findings_of(missing: Iterable[Right]) -> tuple[PreflightFinding, ...]:
    """A finding for each right that is not there."""
    return tuple(
        PreflightFinding(
            severity=PreflightSeverity.BLOCKING if right.blocking else PreflightSeverity.WARNING,
            kind="kubernetes-right",
            text=f"this may not {right}, which is needed {right.why}",
            remedy="grant it, see include/kubernetes/rbac.yaml",
        )
        for right in missing
    )
