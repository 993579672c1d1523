"""Local state of a workload at zero: proven gone with its pods, or wiped on the claims that outlive them."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.application.kubernetes.claims import Claims
from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.kubernetes.wiping_jobs import WipingJobs
from streams_recovery.application.port import WipeReport
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume, claims_of, state_volume
from streams_recovery.core.kubernetes.workload import Workload


def wiped(cluster: Cluster, settings: KubernetesSettings) -> WipeReport:
    """Wipe the state of a workload whose pods are all gone."""
    workload = cluster.workload()
    volume = wipeable(cluster, settings, workload)
    if volume.lasting == "pod":
        return _gone_with_pods(cluster, settings.state_directory)
    claims = Claims(cluster, settings)
    names = claims_of(volume, workload, claims.names())
    if settings.claims == "delete":
        remaining = claims.deleted(names, seconds=settings.start_timeout)
    else:
        remaining = WipingJobs(cluster, settings, workload.template["spec"]).wipe(names, volume, seconds=settings.start_timeout)
    held = [name for name in names if any(left.startswith((f"claim {name},", f"claim {name}:")) for left in remaining)]
    return WipeReport(removed=tuple(f"claim {name}" for name in names if name not in held), remaining=remaining)


def wipeable(cluster: Cluster, settings: KubernetesSettings, workload: Workload) -> StateVolume:
    """The volume with the state. Raises ``ConfigInvalid`` when it could not be wiped."""
    volume = state_volume(workload, cluster.container(workload), settings.state_directory)
    if volume.lasting != "pod" and settings.claims is None:
        raise ConfigInvalid(
            f"the state of {settings.workload} lies on claims that outlive its pods: {volume.name}",
            next_step="set runs.kubernetes.claims to delete or to job",
            claim=volume.name,
        )
    if volume.lasting == "claim" and settings.claims == "delete":
        raise ConfigInvalid(
            f"claims is delete, and nothing would make claim {volume.name} of {settings.workload} again",
            next_step="set runs.kubernetes.claims to job",
            claim=volume.name,
        )
    return volume


def require_no_wipe(cluster: Cluster, settings: KubernetesSettings, workload: Workload) -> None:
    """Remove Jobs that a run which was killed has left: one that gets its claim later would wipe the state of an application that runs. Raises
    ``ApplicationNotReady`` for those that do not go.
    """
    if settings.claims != "job":
        return
    try:
        volume = wipeable(cluster, settings, workload)
    except ConfigInvalid:
        # No job was ever made for such state. The preflight check of a restore says so, and a savepoint need not.
        return
    names = claims_of(volume, workload, Claims(cluster, settings).names())
    left = WipingJobs(cluster, settings, workload.template["spec"]).remove(names, seconds=settings.start_timeout)
    if left:
        raise ApplicationNotReady(
            f"jobs that wipe the state of {settings.workload} are still there: {', '.join(left)}",
            next_step="see why they do not go (kubectl describe job), then run this again",
            jobs=left,
        )


def _gone_with_pods(cluster: Cluster, state_directory: str) -> WipeReport:
    """The pods that were stopped are gone, so their state is: no other pod ever gets a volume of theirs."""
    record = cluster.record()
    gone = [one.pod for one in record.pods] if record and not record.wiped else []
    if record is not None:
        cluster.write(replace(record, wiped=True))
    return WipeReport(removed=tuple(f"{state_directory} of pod {pod}" for pod in gone), remaining=())
