"""Waiting until pods are gone, and seeing how their containers ended before their objects go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import ControlPlaneUnavailable, RecoveryError, ScaledByAnother
from streams_recovery.core.kubernetes.workload import Pod, Workload, of_another, pod_of

_WATCH_SECONDS: Final = 1
_OUTAGE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5

Seen = Callable[[tuple[Pod, ...]], None]


class PodWatch:
    """The pods of a workload from one moment on. Begun before the workload is scaled, it misses no end. ``seen`` is called with pods whose container ended,
    which the kubelet writes before the object goes, and again when one runs after that. ``vanished`` is called with pods whose objects went without such an
    end: something may run in them still.
    """

    def __init__(self, cluster: Cluster, workload: Workload, seen: Seen, vanished: Seen) -> None:
        self._cluster, self._workload, self._seen, self._vanished = cluster, workload, seen, vanished
        self._container = cluster.container(workload)
        self._pods: dict[str, Pod] = {}
        self._ended: set[str] = set()
        # Pods that the selector does not match any more: their labels were changed, and they run on.
        self._outside: set[str] = set()
        self._version = ""
        self._list()
        # The uids of the pods that were there at the beginning. Later pods were not asked to end well.
        self.first = frozenset(self._pods)

    @property
    def left(self) -> tuple[Pod, ...]:
        """Pods that are not gone: their objects are there, and something runs in them or may."""
        return tuple(pod for pod in self._pods.values() if pod.active)

    @property
    def to_kill(self) -> tuple[Pod, ...]:
        """The pods that are left and still the workload's. A pod whose labels were changed is not ours to end."""
        return tuple(pod for pod in self.left if pod.uid not in self._outside)

    def await_gone(self, *, seconds: float) -> None:
        """Wait until no pod is left and none can come, or the time is up. Goes on when the API server is away for a while: it tells later what happened
        meanwhile.

        Raises ``ScaledByAnother`` when another client wants pods again, ``ControlPlaneUnavailable`` after a minute without an answer.
        """
        deadline = time.monotonic() + seconds
        answered = time.monotonic()
        while True:
            try:
                if self._gone():
                    return
                answered = time.monotonic()
            except ControlPlaneUnavailable:
                if time.monotonic() >= max(deadline, answered + _OUTAGE_SECONDS):
                    raise
                time.sleep(_RETRY_SECONDS)
                continue
            if time.monotonic() >= deadline:
                return

    def _gone(self) -> bool:
        now = self._at_zero()
        if self.left:
            self._follow()
            self._ask_for_those_that_left()
        elif now.at_rest:
            # The controller's last pods were made before it said that it makes none.
            self._list()
            return not self.left
        else:
            time.sleep(_RETRY_SECONDS)
        return False

    def _at_zero(self) -> Workload:
        now = self._cluster.workload()
        if now.replicas:
            raise ScaledByAnother(
                f"{now.name} was scaled to {now.replicas} by {now.scaler} while it was being stopped",
                next_step="have that controller leave the workload alone, then run this again",
                workload=str(now.name),
                replicas=now.replicas,
                manager=now.scaler.manager,
            )
        return now

    def _follow(self) -> None:
        for event in self._cluster.pod_events(self._workload, self._version, seconds=_WATCH_SECONDS):
            if not self._take(event["type"], event["object"]) or not self.left:
                return

    def _ask_for_those_that_left(self) -> None:
        # The watch tells nothing more of a pod that has left the selector.
        for uid in self._outside & self._pods.keys():
            self._left_the_list(self._pods[uid])

    def _take(self, kind: str, found: Mapping[str, Any]) -> bool:
        """Take in one event; False when the watch cannot go on from here."""
        if kind == "ERROR":
            if found.get("code") != HTTPStatus.GONE:
                raise _watch_failed(found)
            # What is too long ago cannot be told any more: an end in between was not seen.
            self._list()
            return False
        self._version = found["metadata"]["resourceVersion"]
        if kind != "BOOKMARK" and (found["metadata"]["uid"] in self._pods or not of_another(found, self._workload.name)):
            pod = pod_of(found, self._container)
            if kind == "DELETED":
                self._left_the_list(pod)
                return True
            self._pods[pod.uid] = pod
            self._outside.discard(pod.uid)
            if pod.ended is not None or pod.uid in self._ended:
                # A container that runs again after an end takes that end back.
                self._ended.add(pod.uid)
                self._seen((pod,))
        return True

    def _left_the_list(self, pod: Pod) -> None:
        """A pod is no longer among those that are selected: its object is gone, or its labels were changed and it runs on."""
        now = self._cluster.pod(pod.name, pod.uid)
        if now is not None and now.active:
            self._pods[pod.uid] = now
            self._outside.add(pod.uid)
            return
        self._pods.pop(pod.uid, None)
        last = now or pod
        if last.ended is not None:
            self._seen((last,))
        elif not last.rejected:
            self._vanished((last,))

    def _list(self) -> None:
        before = self._pods
        pods, self._version = self._cluster.pods(self._workload)
        self._pods = {pod.uid: pod for pod in pods}
        self._outside -= self._pods.keys()
        for uid in before.keys() - self._pods.keys():
            self._left_the_list(before[uid])


def _watch_failed(found: Mapping[str, Any]) -> RecoveryError:
    return ControlPlaneUnavailable(
        f"the watch of pods ended: {found.get('message')}", next_step="run this again", status=found.get("code"), doing="watch pods"
    )
