"""Local state of a workload at zero: proven gone with its pods, or wiped on the claims that outlive them."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.application.kubernetes.claims import Claims
from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.wiping_jobs import WipingJobs
from streams_recovery.application.port import WipeReport
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume, claims_of, state_volume
from streams_recovery.core.kubernetes.workload import Workload


def wiped(cluster: Cluster, application_id: str) -> WipeReport:
    """Wipe the state of a workload whose pods are all gone."""
    workload, section = cluster.workload(), cluster.section
    volume = wipeable(cluster, workload)
    if volume.lasting == "pod":
        return _gone_with_pods(cluster)
    claims = Claims(cluster)
    names = claims_of(volume, workload, claims.names())
    if section.claims == "delete":
        remaining = claims.deleted(names, seconds=section.start_timeout)
    else:
        remaining = WipingJobs(cluster, application_id, workload.template["spec"]).wipe(names, volume, seconds=section.start_timeout)
    held = [name for name in names if any(left.startswith((f"claim {name},", f"claim {name}:")) for left in remaining)]
    return WipeReport(removed=tuple(f"claim {name}" for name in names if name not in held), remaining=remaining)


def wipeable(cluster: Cluster, workload: Workload) -> StateVolume:
    """The volume with the state. Raises ``ConfigInvalid`` when it could not be wiped."""
    section = cluster.section
    volume = state_volume(workload, cluster.container(workload), section.state_directory)
    if volume.lasting != "pod" and section.claims is None:
        raise ConfigInvalid(
            f"the state of {section.workload} lies on claims that outlive its pods: {volume.name}",
            next_step="set runs.kubernetes.claims to delete or to job",
            claim=volume.name,
        )
    if volume.lasting == "claim" and section.claims == "delete":
        raise ConfigInvalid(
            f"claims is delete, and nothing would make claim {volume.name} of {section.workload} again",
            next_step="set runs.kubernetes.claims to job",
            claim=volume.name,
        )
    return volume


def require_no_wipe(cluster: Cluster, application_id: str, workload: Workload) -> None:
    """Remove Jobs that a run which was killed has left: one that gets its claim later would wipe the state of an application that runs. Raises
    ``ApplicationNotReady`` for those that do not go.
    """
    section = cluster.section
    if section.claims != "job":
        return
    try:
        volume = wipeable(cluster, workload)
    except ConfigInvalid:
        # No job was ever made for such state. The preflight check of a restore says so, and a savepoint need not.
        return
    names = claims_of(volume, workload, Claims(cluster).names())
    left = WipingJobs(cluster, application_id, workload.template["spec"]).remove(names, seconds=section.start_timeout)
    if left:
        raise ApplicationNotReady(
            f"jobs that wipe the state of {section.workload} are still there: {', '.join(left)}",
            next_step="see why they do not go (kubectl describe job), then run this again",
            jobs=left,
        )


def _gone_with_pods(cluster: Cluster) -> WipeReport:
    """The pods that were stopped are gone, so their state is: no other pod ever gets a volume of theirs."""
    record = cluster.record()
    gone = [one.pod for one in record.pods] if record and not record.wiped else []
    if record is not None:
        cluster.write(replace(record, wiped=True))
    return WipeReport(removed=tuple(f"{cluster.section.state_directory} of pod {pod}" for pod in gone), remaining=())
