"""Argo CD and Flux: a workload that one of them would scale up again is not stopped."""

from __future__ import annotations

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import ConfigInvalid, ManagedByAnother, NotFound
from streams_recovery.core.kubernetes.owners import Owner, is_suspended, owners_of
from streams_recovery.core.kubernetes.workload import Workload


def require_unmanaged(cluster: Cluster, workload: Workload, argocd_namespace: str) -> None:
    """Raise ``ManagedByAnother`` naming every owner that is not suspended, or of which that cannot be seen."""
    found = {owner: problem for owner in owners_of(workload, argocd_namespace) if (problem := _problem(cluster, owner))}
    if found:
        raise ManagedByAnother(
            f"{workload.name} belongs to " + ", and to ".join(f"{owner}, {problem}" for owner, problem in found.items()),
            next_step="suspend it, run this again, and end the suspension when the application runs: "
            + "; ".join(o.suspend for o in found),
            owners=[str(owner) for owner in found],
        )


def _problem(cluster: Cluster, owner: Owner) -> str:
    """Why the owner is in the way, empty when it is not."""
    if not owner.name or not owner.namespace:
        return "whose own object is not named on the workload, so whether it is suspended cannot be seen"
    try:
        suspended = is_suspended(owner, cluster.owner(owner))
    except (ConfigInvalid, NotFound) as error:
        return f"of which cannot be seen whether it is suspended ({error.reason})"
    return "" if suspended else "which is not suspended and would scale it up again"
