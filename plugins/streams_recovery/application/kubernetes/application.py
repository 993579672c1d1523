"""The application port on a Deployment or a StatefulSet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from streams_recovery.application.instances import Fleet
from streams_recovery.application.kubernetes import autoscaling, suspending
from streams_recovery.application.kubernetes.cluster import Cluster, StoppedPod, StopRecord, requested
from streams_recovery.application.kubernetes.ending import PodWatch
from streams_recovery.application.kubernetes.wiping import require_no_wipe, seen_since, wipeable, wiped
from streams_recovery.application.port import (
    InstanceState,
    InstanceStatus,
    StateSince,
    StopReport,
    WipeMark,
    WipeReport,
    require_gone,
    standing,
)
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core.errors import ConfigInvalid, ManagedByAnother, Refused
from streams_recovery.core.kubernetes.controllers import findings_of, rights_needed
from streams_recovery.core.kubernetes.owners import Suspension
from streams_recovery.core.kubernetes.workload import NodeState, Pod, Workload, gone_by, held_update, in_slots, slot_names
from streams_recovery.core.preflight.findings import PreflightFinding, refused
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion

if TYPE_CHECKING:
    from streams_recovery.core.rollout.described import DescribedTopology

_OUT_OF_MEMORY: Final = "OOMKilled"
# The word of Kafka Streams for an instance that is in its group, or comes into it, and does not work.
_NOT_READY: Final = "REBALANCING"

# For a program to end whose Kafka Streams took all the time to close, and for one that has to be killed.
_END_SECONDS: Final = 1.0
_KILL_SECONDS: Final = 30.0
# An autoscaler looks every 15 seconds.
_AUTOSCALER_SECONDS: Final = 60.0

NodeOf = Callable[[str], NodeState]


class KubernetesApplication:
    """The port for pods. An instance is a pod; since pods of a Deployment have new names each time, instances are numbered.

    Gone means that the pod's container was seen to end for good, or that its object has been away for longer than its program may run on, and that the
    workload's controller has seen that no pod is wanted: until then it may make one at any moment, and an instance without a pod is unknown. So is a pod
    whose object goes on existing on a node that does not answer. A pod whose labels were changed is still an instance. Clean means that the container that
    was asked to close was seen to end with 0 or 143 after a stop of ours, not for want of memory, and that it had said it was closed where it can. What a
    stop finds is written down in a ConfigMap before the workload is scaled.
    The section's ``start_timeout`` bounds a wipe and the wait for an answer to a query as well.
    """

    def __init__(self, section: KubernetesRuns, application_id: str) -> None:
        self._section, self._application_id = section, application_id
        self._opened: Cluster | None = None

    @property
    def can_pause(self) -> bool:
        return self._section.no_pause_because is None

    def status(self) -> tuple[InstanceStatus, ...]:
        """Every pod, and at zero every pod that was stopped."""
        return self._status()[0]

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Scale back to what is written down, and wait until autoscalers are on again. More pods than that are left. An ``environment`` is refused.

        Raises ``ApplicationNotReady`` while a Job that wipes its state cannot be removed.
        """
        if environment:
            raise Refused(
                f"pods of {self._section.workload} cannot be started with another environment ({', '.join(sorted(environment))})",
                next_step="make a workload for that application, and a configuration of its own",
            )
        workload, record = self._cluster.workload(), self._cluster.record()
        require_no_wipe(self._cluster, self._application_id, workload)
        wanted = workload.replicas if workload.replicas and record is None else self._replicas(record)
        if workload.replicas < wanted:
            self._cluster.scale(wanted)
        autoscaling.resumed(self._cluster, record.paused if record else (), seconds=_AUTOSCALER_SECONDS)
        autoscaling.proven_on(self._cluster, seconds=_AUTOSCALER_SECONDS)
        suspending.given_back(self._cluster, workload, record.suspended if record else ())
        if record is not None:
            # Last: as long as something is left to be done, the next start needs the record.
            self._cluster.write(None)

    def require_same_version(self) -> None:
        """Raise ``Refused`` for an update that its owner holds: a workload at zero counts as updated whole."""
        require_no_held_update(self._cluster, self._cluster.workload())

    def stop(self, *, timeout: float) -> StopReport:
        """Close, where it is offered, scale to zero, and wait until every pod is gone; those that are left when the time (seconds) is up are killed.

        Raises ``ManagedByAnother``, ``ScaledByAnother``, ``ApplicationNotReady`` for an autoscaler that is not proven off, and for an owner that is at work.
        """
        workload = self._cluster.workload()
        deadline = time.monotonic() + timeout
        watch = PodWatch(self._cluster, workload, lambda pods: self._seen(pods, watch), lambda pods: self._vanished(pods, watch))
        if workload.replicas or watch.left:
            owners = suspending.required(self._cluster, workload)
            autoscaling.require_left_at_zero(self._cluster)
            self._ask(workload, watch.left, owners, seconds=timeout)
            self._cluster.scale(0)
        watch.await_gone(seconds=max(_END_SECONDS, deadline - time.monotonic()))
        for pod in watch.to_kill:
            self._cluster.end_pod(pod, seconds=1)
        watch.await_gone(seconds=_KILL_SECONDS)
        self._note_those_that_vanished(watch)
        if not watch.left:
            autoscaling.proven_off(self._cluster, seconds=_AUTOSCALER_SECONDS)
        return StopReport(instances=self.status())

    def pause(self) -> None:
        """POST to every pod, then see that each says it is paused."""
        self._status()[1].pause()

    def resume(self) -> None:
        """POST to every running pod, then see that none says it is paused."""
        self._status()[1].resume()

    def wipe_state(self) -> WipeReport:
        """Prove that the state of every pod is gone with it, or wipe the claims that outlive pods, those of replicas that were scaled away included."""
        require_gone(self.status())
        return wiped(self._cluster, self._application_id)

    def state_since(self, marks: Sequence[WipeMark]) -> StateSince:
        """By the ids of the pods and claims that have the state. The files in a claim cannot be seen from here."""
        return seen_since(self._cluster, self._application_id, marks)

    def query(self, store: str) -> dict[str, object]:
        """All keys over all pods. While the application rebalances, asked again until the start timeout."""
        return self._status()[1].query(store, seconds=self._section.start_timeout)

    def query_keys(self, questions: Sequence[KeyQuestion], *, seconds: float | None = None) -> tuple[KeyAnswer, ...]:
        """Each key from the instance that has it."""
        return self._status()[1].query_keys(questions, seconds=self._section.start_timeout if seconds is None else seconds)

    def topology(self) -> DescribedTopology | None:
        """Over the HTTP interfaces of the pods."""
        return self._status()[1].topology()

    def preflight(self, *, stops: bool, wipes: bool = False) -> tuple[PreflightFinding, ...]:
        """Rights that are missing, owners and autoscalers that would keep it from being stopped, and state that could not be wiped."""
        return findings(self._cluster, self._application_id, stops=stops, wipes=wipes)

    @property
    def _cluster(self) -> Cluster:
        # Only when something is asked: a configuration can be read where there is no cluster.
        self._opened = self._opened or Cluster(self._section)
        return self._opened

    def _status(self) -> tuple[tuple[InstanceStatus, ...], Fleet]:
        workload = self._cluster.workload()
        record = None if workload.replicas else self._cluster.record()
        selected = self._cluster.pods(workload)[0]
        uids = {pod.uid for pod in selected}
        # A pod whose labels were changed is this application's as long as it exists: its program is not known to have ended.
        unlisted = [one for one in record.pods if one.ended is None and one.uid not in uids] if record else []
        outside = [pod for one in unlisted if (pod := self._cluster.pod(one.pod, one.uid)) is not None]
        pods = in_slots(workload.name.name, (*selected, *outside), record.instances if record else {})
        found = looks(workload, pods, record, self._section.replicas, self._cluster.node, datetime.now(UTC))
        fleet = self._fleet(pods)
        # One that is not ready is at work in none of its group's words.
        waiting = [name for name, pod in pods.items() if not pod.ready]
        completed = (
            replace(one, streams_state=_NOT_READY) if one.silent and one.name in waiting else one for one in fleet.completed(found)
        )
        kept = "".join(f"; {one.owner} is suspended for it" for one in record.suspended) if record else ""
        return tuple(replace(one, detail=one.detail + kept) for one in completed), fleet

    def _fleet(self, pods: Mapping[str, Pod]) -> Fleet:
        port = self._section.port
        urls = {name: f"http://{_host(pod.ip)}:{port}" for name, pod in pods.items() if pod.ip and port is not None}
        return Fleet(urls=urls, control=self._section.endpoints, statuses=self.status)

    def _ask(self, workload: Workload, left: tuple[Pod, ...], owners: tuple[Suspension, ...], *, seconds: float) -> None:
        """Write down the pods that are being stopped, suspend the ``owners`` and pause the autoscalers that would start them again, and have the pods close."""
        stored = self._cluster.record()
        # What an earlier stop has written down of pods counts while the workload is at zero, and is old once it was started again.
        before = None if workload.replicas else stored
        pods = in_slots(workload.name.name, left, before.instances if before else {})
        fleet = self._fleet(pods)
        closes = self._section.endpoints.close is not None
        to_pause = autoscaling.pause_keda(self._cluster)
        record = StopRecord(
            # While something is written down nothing was started again as it should be: another one may have scaled it to less.
            replicas=max(workload.replicas, stored.replicas if stored else 0) or self._section.replicas or len(left),
            pods=requested(pods, fleet.reports(pods), before, closes=closes),
            paused=(*(stored.paused if stored else ()), *to_pause),
            suspended=owners,
        )
        # Before anything is paused: a start after a kill has to know what to resume.
        self._cluster.write(record)
        suspending.suspended(self._cluster, owners, seconds=_AUTOSCALER_SECONDS)
        autoscaling.paused(self._cluster, to_pause, seconds=_AUTOSCALER_SECONDS)
        answers = fleet.closed(pods, seconds=seconds)
        if answers:
            self._cluster.write(record.with_answers({pods[name].uid: answer for name, answer in answers.items()}))

    def _seen(self, pods: tuple[Pod, ...], watch: PodWatch) -> None:
        self._note(lambda record: self._with_newcomers(record, pods, watch).with_ends(pods))

    def _vanished(self, pods: tuple[Pod, ...], watch: PodWatch) -> None:
        at = time.time_ns() // 1_000_000
        self._note(lambda record: self._with_newcomers(record, pods, watch).with_vanished({pod.uid for pod in pods}, at))

    def _with_newcomers(self, record: StopRecord, pods: tuple[Pod, ...], watch: PodWatch) -> StopRecord:
        """With pods that were created after the stop had begun, in place of an evicted one: they were not asked to close."""
        noted = {one.uid for one in record.pods}
        came = [pod for pod in pods if pod.uid not in noted and pod.uid not in watch.first and pod.node]
        closes = self._section.endpoints.close is not None
        # A pod of a StatefulSet has the name of the one before it, and both have to have ended well.
        names = in_slots(self._section.workload_name.name, (replace(pod, ended=None, phase="") for pod in came), record.instances)
        return replace(record, pods=(*record.pods, *requested(names, {}, None, closes=closes)))

    def _note_those_that_vanished(self, watch: PodWatch) -> None:
        """Note the pods of an earlier stop that was killed, whose objects went between the two stops."""
        record, left = self._cluster.record(), {pod.uid for pod in watch.left}
        lost = [one for one in record.pods if one.ended is None and one.vanished is None and one.uid not in left] if record else []
        gone = {one.uid for one in lost if self._cluster.pod(one.pod, one.uid) is None}
        at = time.time_ns() // 1_000_000
        self._note(lambda record: record.with_vanished(gone, at))

    def _note(self, change: Callable[[StopRecord], StopRecord]) -> None:
        record = self._cluster.record()
        if record is not None and (known := change(record)) != record:
            self._cluster.write(known)

    def _replicas(self, record: StopRecord | None) -> int:
        count = record.replicas if record else self._section.replicas
        if count is None:
            raise Refused(
                f"{self._section.workload} is at zero, and how many pods it is to have is written down nowhere",
                next_step="set runs.kubernetes.replicas, or scale it by hand",
                record=self._section.record_name,
            )
        return count


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def findings(cluster: Cluster, application_id: str, *, stops: bool, wipes: bool) -> tuple[PreflightFinding, ...]:
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
    return (*found, *_kept_state(cluster, workload, application_id, wipes=wipes), *_in_the_way(cluster, workload))


def _kept_state(cluster: Cluster, workload: Workload, application_id: str, *, wipes: bool) -> tuple[PreflightFinding, ...]:
    try:
        if wipes:
            wipeable(cluster, workload, application_id)
    except ConfigInvalid as error:
        return (refused("state-not-wipeable", error),)
    return ()


def _in_the_way(cluster: Cluster, workload: Workload) -> tuple[PreflightFinding, ...]:
    try:
        suspending.required(cluster, workload)
        autoscaling.require_left_at_zero(cluster)
    except Refused as error:
        kind = "managed-elsewhere" if isinstance(error, ManagedByAnother) else "autoscaler"
        return (refused(kind, error),)
    try:
        require_no_held_update(cluster, workload)
    except Refused as error:
        return (refused("update-held", error),)
    return ()


def require_no_held_update(cluster: Cluster, workload: Workload) -> None:
    """Raise ``Refused`` where a stop would end an update that its owner holds half way."""
    why = held_update(workload, cluster.pods(workload)[0]) if workload.replicas and workload.holds_update else ""
    if why:
        raise Refused(
            why,
            next_step=f"nothing was stopped; take the update back (kubectl rollout undo {workload.name}) or finish it, then run this again",
            workload=str(workload.name),
        ).then(f"kubectl rollout undo {workload.name} -n {cluster.section.namespace}")


def looks(
    workload: Workload, pods: Mapping[str, Pod], record: StopRecord | None, configured: int | None, node_of: NodeOf, now: datetime
) -> dict[str, InstanceStatus]:
    """Every instance by its name: those with a pod, those that the workload wants, and of a workload at zero those that were stopped."""
    found = {name: replace(_with_pod(name, pod, node_of, now), restarts=pod.restarts) for name, pod in pods.items()}
    if workload.replicas:
        missing = max(0, workload.replicas - len(pods))
        names = [name for name in slot_names(workload.name.name, workload.replicas + len(pods), workload.first) if name not in found]
        # A controller makes this pod at any moment.
        wanted = f"wanted by {workload.name}, has no pod yet"
        found |= {name: standing(name, InstanceState.RUNNING, wanted, program_runs=False) for name in names[:missing]}
        return dict(sorted(found.items(), key=lambda item: _ordinal(item[0])))
    stopped: dict[str, list[StoppedPod]] = {}
    for one in record.pods if record else ():
        stopped.setdefault(one.instance, []).append(one)
    count = (record.replicas if record else configured) or int(not workload.at_rest)
    names = list(dict.fromkeys((*slot_names(workload.name.name, count, workload.first), *stopped)))
    for name in names:
        if name not in found:
            several = [_unwanted(workload, name, one, node_of, now) for one in stopped.get(name, [None])]
            # One that was evicted in mid-stop and the one in its place: what is proven of both counts.
            found[name] = max(several, key=lambda look: (look.state is not InstanceState.GONE, not look.closed_cleanly))
    return dict(sorted(found.items(), key=lambda item: _ordinal(item[0])))


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def _with_pod(name: str, pod: Pod, node_of: NodeOf, now: datetime) -> InstanceStatus:
    where = f"pod {pod.name} on node {pod.node or '-'}"
    # The address of a pod in its node's network is that of everything on the node.
    left_at = "" if pod.host_network else pod.ip
    if pod.ends_by is not None:
        node = node_of(pod.node)
        if node in ("lost", "absent") or pod.overdue(now):
            why = "does not answer" if node == "lost" else "has not said that it ended"
            return standing(name, InstanceState.UNKNOWN, f"{where}: was to end by {pod.ends_by:%H:%M:%S}, and its node {why}", host=pod.ip)
        return standing(name, InstanceState.RUNNING, f"{where} is ending", host=pod.ip)
    if pod.ended is not None or pod.waiting:
        why = f"container ended with {pod.ended.exit_code}" if pod.ended else pod.waiting
        detail = f"{where}: {why}, and may be started again at any moment"
        return standing(name, InstanceState.RUNNING, detail, host=left_at, program_runs=False)
    if not pod.container:
        return standing(name, InstanceState.RUNNING, f"{where}: its container was not started yet", host=left_at, program_runs=False)
    return standing(name, InstanceState.RUNNING, where, host=pod.ip)


def _unwanted(workload: Workload, name: str, stopped: StoppedPod | None, node_of: NodeOf, now: datetime) -> InstanceStatus:
    look = _without_pod(name, stopped, node_of, now)
    if workload.at_rest or look.state is not InstanceState.GONE:
        return look
    detail = f"no pod, and the controller of {workload.name} has not said yet that it makes none: see that kube-controller-manager works"
    return standing(name, InstanceState.UNKNOWN, detail)


def _without_pod(name: str, stopped: StoppedPod | None, node_of: NodeOf, now: datetime) -> InstanceStatus:
    if stopped is None:
        return standing(name, InstanceState.GONE, "no pod, and no stop on record", clean=False, stopped_here=False)
    where, end = f"pod {stopped.pod}", stopped.end
    if end is None:
        if node_of(stopped.node) == "lost":
            detail = f"{where} was removed while its node {stopped.node} did not answer: turn that node off and delete its Node object"
            return standing(name, InstanceState.UNKNOWN, detail)
        if stopped.vanished is None:
            detail = f"{where} is not there any more, and its end was not seen: stop it again, which notes from when on it is missing"
            return standing(name, InstanceState.UNKNOWN, detail)
        by = gone_by(datetime.fromtimestamp(stopped.vanished / 1000, UTC), stopped.grace)
        if now < by:
            detail = (
                f"{where} was removed by force before its end was seen: its program may run until {by:%H:%M:%S} UTC, stop it again then"
            )
            return standing(name, InstanceState.UNKNOWN, detail)
        detail = f"{where}: its end was not seen, asked by {stopped.request.by}"
        return standing(name, InstanceState.GONE, detail, clean=False, stopped_here=True)
    out_of_memory = stopped.ended is not None and stopped.ended.reason == _OUT_OF_MEMORY
    detail, clean = f"{where}: {end}{', out of memory' if out_of_memory else ''}", end.clean and not out_of_memory
    return standing(name, InstanceState.GONE, detail, clean=clean, reported_closed=end.reported_closed, stopped_here=True)
