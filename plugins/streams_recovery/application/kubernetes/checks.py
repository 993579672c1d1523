"""What would keep a workload from being stopped and started, found before anything is done."""

from __future__ import annotations

from streams_recovery.application.kubernetes import autoscaling
from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.ownership import require_unmanaged
from streams_recovery.application.kubernetes.wiping import wipeable
from streams_recovery.core.errors import ConfigInvalid, ManagedByAnother, Refused
from streams_recovery.core.kubernetes.rights import findings_of, rights_needed
from streams_recovery.core.kubernetes.workload import Workload
from streams_recovery.core.preflight.findings import PreflightFinding, blocking_finding


def findings(cluster: Cluster, *, stops: bool, wipes: bool) -> tuple[PreflightFinding, ...]:
    """Rights that are missing, owners and autoscalers that are in the way, and state that could not be wiped. Without the rights to see these nothing is
    known of them.
    """
    section = cluster.section
    needed = rights_needed(
        section.workload_name, section.namespace, section.record_name, stops=stops, claims=section.claims, keda=cluster.has_keda()
    )
    missing = cluster.missing(needed)
    found = findings_of(missing)
    if not stops or any(right.blocking for right in missing):
        return found
    workload = cluster.workload()
    return (*found, *_kept_state(cluster, workload, wipes=wipes), *_in_the_way(cluster, workload))


def _kept_state(cluster: Cluster, workload: Workload, *, wipes: bool) -> tuple[PreflightFinding, ...]:
    try:
        if wipes:
            wipeable(cluster, workload)
    except ConfigInvalid as error:
        return (blocking_finding("state-not-wipeable", error.reason, error.next_step),)
    return ()


def _in_the_way(cluster: Cluster, workload: Workload) -> tuple[PreflightFinding, ...]:
    try:
        require_unmanaged(cluster, workload, cluster.section.argocd_namespace)
        autoscaling.require_no_scaling_from_zero(cluster)
    except Refused as error:
        kind = "managed-elsewhere" if isinstance(error, ManagedByAnother) else "autoscaler"
        return (blocking_finding(kind, error.reason, error.next_step),)
    return ()
