"""The instances of a workload as the port describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from streams_recovery.application.kubernetes.record import StoppedPod, StopRecord
from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.core.kubernetes.pods import NodeState, Pod, slot_names
from streams_recovery.core.kubernetes.workload import Workload

_OUT_OF_MEMORY: Final = "OOMKilled"

NodeOf = Callable[[str], NodeState]


def looks(
    workload: Workload, pods: Mapping[str, Pod], record: StopRecord | None, configured: int | None, node_of: NodeOf, now: datetime
) -> dict[str, InstanceStatus]:
    """Every instance that is meant to exist, by its name: those with a pod, those that are wanted, and at zero those that were stopped."""
    found = {name: _with_pod(name, pod, node_of, now) for name, pod in pods.items()}
    if workload.replicas:
        missing = max(0, workload.replicas - len(pods))
        names = [name for name in slot_names(workload.name.name, workload.replicas + len(pods), workload.first) if name not in found]
        # A controller makes this pod at any moment.
        found |= {name: _standing(name, InstanceState.RUNNING, f"wanted by {workload.name}, has no pod yet") for name in names[:missing]}
        return dict(sorted(found.items(), key=lambda item: _ordinal(item[0])))
    stopped = {one.instance: one for one in record.pods} if record else {}
    count = (record.replicas if record else configured) or int(not workload.at_rest)
    names = list(dict.fromkeys((*slot_names(workload.name.name, count, workload.first), *stopped)))
    found |= {name: _unwanted(workload, name, stopped.get(name), node_of) for name in names if name not in found}
    return dict(sorted(found.items(), key=lambda item: _ordinal(item[0])))


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def _with_pod(name: str, pod: Pod, node_of: NodeOf, now: datetime) -> InstanceStatus:
    where = f"pod {pod.name} on node {pod.node or '-'}"
    if pod.ends_by is not None:
        node = node_of(pod.node)
        if node in ("lost", "absent") or pod.overdue(now):
            why = "does not answer" if node == "lost" else "has not said that it ended"
            return _standing(name, InstanceState.UNKNOWN, f"{where}: was to end by {pod.ends_by:%H:%M:%S}, and its node {why}")
        return _standing(name, InstanceState.RUNNING, f"{where} is ending")
    if pod.ended is not None or pod.waiting:
        why = f"container ended with {pod.ended.exit_code}" if pod.ended else pod.waiting
        return _standing(name, InstanceState.RUNNING, f"{where}: {why}, and may be started again at any moment")
    return _standing(name, InstanceState.RUNNING, where)


def _unwanted(workload: Workload, name: str, stopped: StoppedPod | None, node_of: NodeOf) -> InstanceStatus:
    look = _without_pod(name, stopped, node_of)
    if workload.at_rest or look.state is not InstanceState.GONE:
        return look
    detail = f"no pod, and the controller of {workload.name} has not said yet that it makes none: see that kube-controller-manager works"
    return _standing(name, InstanceState.UNKNOWN, detail)


def _without_pod(name: str, stopped: StoppedPod | None, node_of: NodeOf) -> InstanceStatus:
    if stopped is None:
        return replace(_standing(name, InstanceState.GONE, "no pod, and no stop on record", clean=False), stopped_here=False)
    where, end = f"pod {stopped.pod}", stopped.end
    if end is None:
        if node_of(stopped.node) == "lost":
            detail = f"{where} was removed while its node {stopped.node} did not answer: turn that node off and delete its Node object"
            return _standing(name, InstanceState.UNKNOWN, detail)
        look = _standing(name, InstanceState.GONE, f"{where}: its end was not seen, asked by {stopped.request.by}", clean=False)
        return replace(look, stopped_here=True)
    out_of_memory = stopped.ended is not None and stopped.ended.reason == _OUT_OF_MEMORY
    detail = f"{where}: {end}{', out of memory' if out_of_memory else ''}"
    look = _standing(name, InstanceState.GONE, detail, clean=end.clean and not out_of_memory)
    return replace(look, reported_closed=end.reported_closed, stopped_here=True)


def _standing(name: str, state: InstanceState, detail: str, *, clean: bool | None = None) -> InstanceStatus:
    return InstanceStatus(name=name, state=state, streams_state=None, closed_cleanly=clean, detail=detail)
