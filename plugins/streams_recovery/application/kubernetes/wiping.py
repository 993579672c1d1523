"""Local state of a workload at zero: proven gone with its pods, or wiped on the claims that outlive them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streams_recovery.application.kubernetes.claims import Claims
from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.application.port import WipeReport
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.state_volume import StateVolume, claims_of, state_volume


def wiped(cluster: Cluster, settings: KubernetesSettings) -> WipeReport:
    """Wipe the state of a workload whose pods are all gone."""
    workload = cluster.workload()
    volume = state_volume(workload, cluster.container(workload), settings.state_directory)
    if volume.lasting == "pod":
        return _gone_with_pods(cluster, settings.state_directory)
    claims = Claims(cluster, settings)
    names = claims_of(volume, workload, claims.names())
    remaining = _wiped_claims(claims, names, volume, settings)
    held = [name for name in names if any(left.startswith((f"claim {name},", f"claim {name}:")) for left in remaining)]
    return WipeReport(removed=tuple(f"claim {name}" for name in names if name not in held), remaining=remaining)


def _gone_with_pods(cluster: Cluster, state_directory: str) -> WipeReport:
    """The pods that were stopped are gone, so their state is: no other pod ever gets a volume of theirs."""
    record = cluster.record()
    gone = [one.pod for one in record.pods] if record and not record.wiped else []
    if record is not None:
        cluster.write(replace(record, wiped=True))
    return WipeReport(removed=tuple(f"{state_directory} of pod {pod}" for pod in gone), remaining=())


def _wiped_claims(claims: Claims, names: Sequence[str], volume: StateVolume, settings: KubernetesSettings) -> tuple[str, ...]:
    """What is left of the state, each with the reason."""
    if settings.claims == "delete":
        return claims.deleted(names, seconds=settings.start_timeout)
    if settings.claims == "job":
        return claims.wiped(names, volume, seconds=settings.start_timeout)
    raise ConfigInvalid(
        f"the state of {settings.workload} lies on claims that outlive its pods: {', '.join(names) or volume.name}",
        next_step="set runs.kubernetes.claims to delete or to job",
        claims=names,
    )
