"""Pods: what their objects prove about the programs in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.workload import WorkloadName

_OVER: Final = ("Succeeded", "Failed")
# A kubelet that works removes a pod within seconds of its grace period.
_OVERDUE: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """How a container ended: what the kubelet saw, not what somebody expects. ``reason`` is ``OOMKilled``, ``Error``, ``Completed``."""

    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. ``ended`` is the end of the application's container, None while it runs, waits to be started again, or nothing is known of it.
    ``all_ended`` is true when every container of the pod has ended. ``ends_by`` is the moment at which the pod's grace period is over, None when nobody has
    asked it to end.
    """

    name: str
    uid: str
    created: str
    node: str
    ip: str
    phase: str
    ends_by: datetime | None
    waiting: str
    ended: ContainerEnd | None
    all_ended: bool

    @property
    def active(self) -> bool:
        """False only for one that ended by itself, whose object may stay for long. One that was asked to end is active until its object is gone: only then its
        volumes are.
        """
        return not (self.phase in _OVER and self.all_ended and self.ends_by is None)

    def overdue(self, now: datetime) -> bool:
        """True when it should have been gone for a while. Then its node may be lost."""
        return self.ends_by is not None and now > self.ends_by + _OVERDUE


def of_another(found: Mapping[str, Any], workload: WorkloadName) -> bool:
    """True for the pod of another controller, such as a Job, that has the labels of the workload's. It is no instance, and not for us to end. One without a
    controller the workload's takes over.
    """
    owners = found["metadata"].get("ownerReferences") or ()
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None:
        return False
    if workload.kind == "statefulset":
        return (owner["kind"], owner["name"]) != ("StatefulSet", workload.name)
    # A Deployment's pods are those of its ReplicaSets, which have its name and a hash.
    return owner["kind"] != "ReplicaSet" or not owner["name"].startswith(f"{workload.name}-")


def pod_of(found: Mapping[str, Any], container: str) -> Pod:
    """From the object. ``container`` is the application's."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    states = {one["name"]: one.get("state") or {} for one in status.get("containerStatuses") or ()}
    own = states.get(container, {})
    ended = own.get("terminated")
    deletion = metadata.get("deletionTimestamp")
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp") or "",
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        ends_by=None if deletion is None else _moment(deletion),
        waiting=(own.get("waiting") or {}).get("reason") or "",
        ended=None if ended is None else ContainerEnd(exit_code=ended.get("exitCode", -1), reason=ended.get("reason") or ""),
        all_ended=bool(states) and all("terminated" in state for state in states.values()),
    )


def application_container(template: Mapping[str, Any], wanted: str | None, where: str) -> str:
    """The name of the application's container. Raises ``ConfigInvalid`` when it is not there, or when there are several and none is named."""
    names = [one["name"] for one in template["spec"]["containers"]]
    if wanted is not None and wanted in names:
        return wanted
    if wanted is None and len(names) == 1:
        return str(names[0])
    raise ConfigInvalid(
        f"{where} has the containers {', '.join(names)}"
        + (f", and none is named {wanted}" if wanted else ", and one of them is the application"),
        next_step="set runs.kubernetes.container to the application's",
        containers=names,
    )


def in_slots(workload: str, pods: Iterable[Pod], known: Mapping[str, str] | None = None) -> dict[str, Pod]:
    """Pods by the names of the instances. A pod of a Deployment has another name each time, so instances are counted, the oldest first. ``known`` has the
    names that were given before, by the uids of pods: who is left of several keeps its own.
    """
    active = [pod for pod in pods if pod.active]
    ordinal = f"{workload}-"
    numbered = [pod for pod in active if pod.name.startswith(ordinal) and pod.name.removeprefix(ordinal).isdecimal()]
    if len(numbered) == len(active):
        return {pod.name: pod for pod in sorted(active, key=lambda pod: int(pod.name.removeprefix(ordinal)))}
    named = {known[pod.uid]: pod for pod in active if pod.uid in known} if known else {}
    others = sorted((pod for pod in active if pod not in named.values()), key=lambda pod: (pod.created, pod.name))
    free = (name for name in slot_names(workload, len(active) + len(known or ())) if name not in (known or {}).values())
    return named | dict(zip(free, others, strict=False))


def slot_names(workload: str, count: int, first: int = 0) -> Sequence[str]:
    """The names of so many instances."""
    return [f"{workload}-{number}" for number in range(first, first + count)]


NodeState = Literal["ready", "lost", "absent", "unseen"]


def node_state(found: Mapping[str, Any] | None) -> NodeState:
    """Whether a node answers; None is one whose object does not exist. The kubelet of one that answers has ended what the API has no pod for."""
    if found is None:
        return "absent"
    conditions = {one["type"]: one["status"] for one in (found.get("status") or {}).get("conditions") or ()}
    return "ready" if conditions.get("Ready") == "True" else "lost"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
