"""The Deployment or StatefulSet that runs an application, what its pods prove about the programs in them, and the volume with the local state."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final, Literal, Self, cast

from streams_recovery.core.errors import ConfigInvalid

WorkloadKind = Literal["deployment", "statefulset"]
# As the API calls them.
API_KINDS: Final[Mapping[WorkloadKind, str]] = {"deployment": "Deployment", "statefulset": "StatefulSet"}
NodeState = Literal["ready", "lost", "absent", "unseen"]
# "pod": gone with the pod. "templates": a claim for each pod, made by the StatefulSet. "claim": one claim that all pods share.
Lasting = Literal["pod", "templates", "claim"]
_OVER: Final = ("Succeeded", "Failed")
# A kubelet that works removes a pod within seconds of its grace period.
_OVERDUE: Final = timedelta(seconds=30)
# What Kubernetes gives a pod that names no grace period.
_GRACE_SECONDS: Final = 30
# A node counts as ready for 40 seconds after its last word, and the kubelet needs a moment to see that a pod's object is gone.
_SILENCE: Final = timedelta(seconds=60)
# Why a kubelet refuses a pod before it starts anything of it (pkg/kubelet, HandlePodAdditions).
_REJECTIONS: Final = frozenset(
    {
        "AppArmor",
        "Evicted",
        "InvalidNodeInfo",
        "NodeAffinity",
        "NodeShutdown",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "SysctlForbidden",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
    }
)
# Volumes that are made with a pod and go with it. The claim of an ephemeral one has the pod as its owner, and a later pod takes none that another one owns.
_OF_THE_POD: Final = ("emptyDir", "ephemeral")
# Volumes that are files of Kubernetes': an application keeps nothing in them.
_FILES: Final = frozenset({"configMap", "downwardAPI", "image", "projected", "secret"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadName:
    """The name of a workload, as ``kubectl`` writes it: ``deployment/orders``."""

    kind: WorkloadKind
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``kind/name``. Raises ``ValueError`` for what is no such name."""
        kind, _, name = text.partition("/")
        if kind not in API_KINDS or not name or "/" in name:
            raise ValueError(f"{text[:80]!r} is no workload: write deployment/NAME or statefulset/NAME")
        return cls(kind=cast("WorkloadKind", kind), name=name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """The last writer of the replica count, and when it wrote, as far as the object says it."""

    manager: str
    at: str

    def __str__(self) -> str:
        return f"{self.manager} at {self.at}" if self.at else self.manager


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload as it is. ``replicas`` are those that are wanted, ``first`` is the number of the first pod of a StatefulSet. ``at_rest``: no pod is wanted,
    its controller has seen that, and counts none. Without it pods may still come, however few there are now. ``holds_update`` is the setting by which its owner
    keeps pods of an older template, empty where nothing does; ``revision`` is the newest template of a StatefulSet.
    """

    name: WorkloadName
    replicas: int
    at_rest: bool
    first: int
    selector: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    managers: frozenset[str]
    scaler: Scaler
    template: Mapping[str, Any]
    claim_templates: tuple[str, ...]
    holds_update: str = ""
    revision: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """The end of a container, as the kubelet saw it. ``reason`` is ``OOMKilled``, ``Error``, ``Completed``. ``container`` is its
    id, empty if the kubelet wrote none.
    """

    exit_code: int
    reason: str
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOnNode:
    """A pod and the application's container in it. ``ended`` is that container's end, None while it runs, waits to be started again, or nothing is known of
    it. ``container`` is its id: a pod that starts its container again has another one, empty before the first. ``grace`` is the pod's grace period in
    seconds.
    """

    uid: str
    node: str
    ended: ContainerEnd | None
    container: str = ""
    grace: int = _GRACE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod(PodOnNode):
    """One pod. ``all_ended`` is true when every container of the pod has ended. ``rejected``: the kubelet took the pod in never, so nothing of it ran.
    ``ends_by`` is the moment at which the pod's grace period is over, None when the pod was not asked to end. ``host_network``: its address is that of its
    node. ``revision`` is the template of a StatefulSet that it was made of, ``restarts`` how often its kubelet has started the application's container again.
    ``ready``: all its containers run and their probes, where they have any, succeed.
    """

    name: str
    created: str
    ip: str
    phase: str
    ends_by: datetime | None
    waiting: str
    all_ended: bool
    rejected: bool = False
    host_network: bool = False
    revision: str = ""
    restarts: int = 0
    ready: bool = False

    @property
    def active(self) -> bool:
        """False only for one that ended by itself, whose object may stay for long. One that was asked to end is active until its object is gone: only then its
        volumes are.
        """
        if self.rejected:
            return False
        return not (self.phase in _OVER and self.all_ended and self.ends_by is None)

    def overdue(self, now: datetime) -> bool:
        """True when it should have been gone for a while. Then its node may be lost."""
        return self.ends_by is not None and now > self.ends_by + _OVERDUE


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVolume:
    """The volume with the state. ``name`` is that of the claim or of the claim template, ``mount`` how the container mounts it."""

    lasting: Lasting
    name: str
    mount: Mapping[str, Any]


def workload_of(name: WorkloadName, found: Mapping[str, Any]) -> Workload:
    """The workload of an object. Raises ``ConfigInvalid`` for one that selects pods in a way that is not known."""
    metadata, spec = found["metadata"], found["spec"]
    written = metadata.get("managedFields") or ()
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    return Workload(
        name=name,
        replicas=replicas,
        at_rest=not replicas and _at_rest(metadata, found.get("status") or {}),
        first=(spec.get("ordinals") or {}).get("start") or 0,
        selector=selector_text(spec["selector"], str(name)),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        managers=frozenset(entry.get("manager", "") for entry in written),
        scaler=_scaler(written),
        template=spec["template"],
        claim_templates=tuple(claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates") or ()),
        holds_update=_holds_update(name.kind, spec, found.get("status") or {}),
        revision=(found.get("status") or {}).get("updateRevision") or "",
    )


def _holds_update(kind: WorkloadKind, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if kind == "deployment":
        # Pods of both templates. Without any of the newest, what is scaled up from zero is the template that runs.
        halfway = 0 < (status.get("updatedReplicas") or 0) < (status.get("replicas") or 0)
        return "paused" if spec.get("paused") and halfway else ""
    strategy = spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    if strategy.get("type") == "OnDelete":
        return "updateStrategy OnDelete"
    return f"rollingUpdate.partition {partition}" if partition else ""


def held_update(workload: Workload, pods: Iterable[Pod]) -> str:
    """The changes of the running version by a stop and a start, empty without any. A workload at zero counts as updated whole (StatefulSet's
    completeRollingUpdate), so its next pods are all of the newest template, also those that its owner had kept from that.
    """
    if not workload.holds_update:
        return ""
    older = [pod.name for pod in pods if pod.active and pod.revision and workload.revision and pod.revision != workload.revision]
    if workload.name.kind == "deployment" or older:
        which = f" ({', '.join(sorted(older)[:5])})" if older else ""
        return f"{workload.name} has pods of an older template{which}, kept by {workload.holds_update}: after a stop all its pods would be of the newest one"
    return ""


def _at_rest(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    # A Deployment's controller writes the generation only after it has scaled its ReplicaSets, and the count is the sum of theirs.
    return (status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0) and not status.get("replicas")


def selector_text(selector: Mapping[str, Any], where: str) -> str:
    """A label selector as the API takes it in a query."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        key, values = rule["key"], ",".join(rule.get("values") or ())
        known = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        if rule["operator"] not in known:
            raise ConfigInvalid(
                f"{where} selects its pods by {rule['operator']}, which this version does not know",
                next_step="use In, NotIn, Exists or DoesNotExist in its selector",
                workload=where,
            )
        parts.append(known[rule["operator"]])
    return ",".join(parts)


def _scaler(entries: Iterable[Mapping[str, Any]]) -> Scaler:
    # Kubernetes 1.35 keeps no name for a count of zero that came by the subresource scale (an empty number is left out of a Scale), and none for
    # the next count that comes that way. The name of a client that writes the workload itself is always kept, with the time.
    writers = [entry for entry in entries if "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})]
    newest = max(writers, key=lambda entry: entry.get("time") or "", default={})
    return Scaler(manager=newest.get("manager") or "a client that left no name", at=newest.get("time") or "")


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
    # A Deployment's ReplicaSet has its name and the hash of the pods' template, which its controller writes on the pods too. The beginning of a name
    # proves nothing: orders-audit has one that begins like those of orders.
    labels = found["metadata"].get("labels") or {}
    return (owner["kind"], owner["name"]) != ("ReplicaSet", f"{workload.name}-{labels.get('pod-template-hash')}")


def pod_of(found: Mapping[str, Any], container: str) -> Pod:
    """The pod of an object. ``container`` is the application's."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    shown: dict[str, Mapping[str, Any]] = {one["name"]: one for one in status.get("containerStatuses") or ()}
    states = {name: one.get("state") or {} for name, one in shown.items()}
    own = states.get(container, {})
    ended = own.get("terminated")
    run = (ended or {}).get("containerID") or shown.get(container, {}).get("containerID") or ""
    grace = spec.get("terminationGracePeriodSeconds")
    deletion = metadata.get("deletionTimestamp")
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp") or "",
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "",
        ends_by=None if deletion is None else datetime.fromisoformat(deletion).astimezone(UTC),
        waiting=(own.get("waiting") or {}).get("reason") or "",
        ended=None if ended is None else ContainerEnd(exit_code=ended.get("exitCode", -1), reason=ended.get("reason") or "", container=run),
        all_ended=bool(states) and all("terminated" in state for state in states.values()),
        container=run,
        grace=_GRACE_SECONDS if grace is None else grace,
        rejected=_is_rejected(status),
        host_network=bool(spec.get("hostNetwork")),
        revision=(metadata.get("labels") or {}).get("controller-revision-hash") or "",
        restarts=shown.get(container, {}).get("restartCount") or 0,
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()),
    )


def _is_rejected(status: Mapping[str, Any]) -> bool:
    """True for a pod that its kubelet refused, such as OutOfcpu: it has no containers, and never had."""
    begun = any(status.get(key) for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"))
    reason = status.get("reason") or ""
    return status.get("phase") == "Failed" and not begun and (reason in _REJECTIONS or reason.startswith("OutOf"))


def gone_by(vanished: datetime, grace: int) -> datetime:
    """The moment at which nothing runs any more of a pod whose object vanished before its container was seen to end: its kubelet gives the program the whole
    grace period (seconds), and a node that died is known as lost by then.
    """
    return vanished + timedelta(seconds=grace) + _SILENCE


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


def node_state(found: Mapping[str, Any] | None) -> NodeState:
    """The state of a node; None is one whose object does not exist. The kubelet of one that answers has ended what the API has no pod for."""
    if found is None:
        return "absent"
    conditions = {one["type"]: one["status"] for one in (found.get("status") or {}).get("conditions") or ()}
    return "ready" if conditions.get("Ready") == "True" else "lost"


def state_volume(
    workload: Workload, container: str, state_directory: str, application_id: str, without_state: Collection[str] = ()
) -> StateVolume:
    """The volume in which ``{state_directory}/{application_id}`` lies. ``without_state`` are volumes that the configuration declares to have no state.

    Raises ``ConfigInvalid`` for a volume that can neither be proven gone nor be wiped from here, for another volume that is mounted below that directory, and
    for a volume that outlives its pod and is mounted elsewhere: a link in the image may lead there.
    """
    spec = workload.template["spec"]
    own = next(one for one in spec["containers"] if one["name"] == container)
    mounts, directory = own.get("volumeMounts") or (), PurePosixPath(state_directory, application_id)
    mount = _mount_of(mounts, directory)
    for other in mounts:
        if other is not mount:
            _require_no_state(other, directory, workload, without_state)
    if mount is None:
        # The container's own layer, which is gone with the container.
        return StateVolume(lasting="pod", name="", mount={})
    kind = _kind_of(mount["name"], workload)
    if kind == "claim template":
        return _on_claim("templates", mount["name"], mount, workload)
    if mount.get("readOnly"):
        raise ConfigInvalid(
            f"volume {mount['name']} of {workload.name} is mounted read-only at {mount['mountPath']}: no application has its state in {state_directory} there",
            next_step="set runs.kubernetes.state_directory to state.dir of the program",
            volume=mount["name"],
            kind=kind,
        )
    if kind in _OF_THE_POD:
        return StateVolume(lasting="pod", name=mount["name"], mount=mount)
    volume = _volume(mount["name"], workload)
    if kind == "persistentVolumeClaim":
        return _on_claim("claim", volume["persistentVolumeClaim"]["claimName"], mount, workload)
    inline = ": whether it goes with its pod only its driver knows" if kind == "csi" else ""
    raise ConfigInvalid(
        f"the state of {workload.name} in {state_directory} lies on a volume of the kind {kind}, which cannot be wiped from here{inline}",
        next_step="keep state in an emptyDir or on a PersistentVolumeClaim",
        volume=volume["name"],
        kind=kind,
    )


def _volume(name: str, workload: Workload) -> Mapping[str, Any]:
    volumes: Iterable[Mapping[str, Any]] = workload.template["spec"].get("volumes") or ()
    return next((one for one in volumes if one["name"] == name), {})


def _kind_of(name: str, workload: Workload) -> str:
    return "claim template" if name in workload.claim_templates else ", ".join(sorted(set(_volume(name, workload)) - {"name"}))


def _require_no_state(mount: Mapping[str, Any], directory: PurePosixPath, workload: Workload, without_state: Collection[str]) -> None:
    name, place, kind = mount["name"], PurePosixPath(mount["mountPath"]), _kind_of(mount["name"], workload)
    if kind in (*_FILES, *_OF_THE_POD) or directory.is_relative_to(place):
        # It goes with the pod, or an inner mount hides it.
        return
    if place.is_relative_to(directory):
        raise ConfigInvalid(
            f"volume {name} of {workload.name} is mounted at {place}, inside the state in {directory}, where it cannot be wiped from here",
            next_step="mount one volume that has the whole state directory",
            volume=name,
            kind=kind,
        )
    # What it cannot write to has none of its state, wherever a link leads.
    if name not in without_state and not mount.get("readOnly"):
        raise ConfigInvalid(
            f"volume {name} of {workload.name} outlives its pods and is mounted at {place}; a link in the image may lead there from {directory}",
            next_step=f"write {name} in runs.kubernetes.volumes_without_state if no state lies on it, or else the path below {place} in state_directory",
            volume=name,
            kind=kind,
        )


def _on_claim(lasting: Lasting, name: str, mount: Mapping[str, Any], workload: Workload) -> StateVolume:
    if "subPathExpr" in mount:
        # Only the kubelet knows what it is for each pod: elsewhere on the claim nothing would be found, and nothing removed.
        raise ConfigInvalid(
            f"the state of {workload.name} lies below subPathExpr {mount['subPathExpr']} of volume {mount['name']}, where it cannot be wiped from here",
            next_step="use subPath, or a claim for each pod without either",
            volume=mount["name"],
        )
    return StateVolume(lasting=lasting, name=name, mount=mount)


def _mount_of(mounts: Iterable[Mapping[str, Any]], directory: PurePosixPath) -> Mapping[str, Any] | None:
    around = [one for one in mounts if directory.is_relative_to(one["mountPath"])]
    return max(around, key=lambda one: len(PurePosixPath(one["mountPath"]).parts), default=None)


def claims_of(volume: StateVolume, workload: Workload, existing: Iterable[str]) -> tuple[str, ...]:
    """The claims with state. Those of replicas that were scaled away before are among them: their state would be taken up again one day."""
    if volume.lasting == "pod":
        return ()
    if volume.lasting == "claim":
        return tuple(name for name in existing if name == volume.name)
    pattern = re.compile(rf"{re.escape(volume.name)}-{re.escape(workload.name.name)}-(\d+)")
    numbered = [(int(found[1]), name) for name in existing if (found := pattern.fullmatch(name))]
    return tuple(name for _, name in sorted(numbered))
