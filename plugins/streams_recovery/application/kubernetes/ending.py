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
    which the kubelet writes before the object goes.
    """

    def __init__(self, cluster: Cluster, workload: Workload, seen: Seen) -> None:
        self._cluster, self._workload, self._seen = cluster, workload, seen
        self._container = cluster.container(workload)
        self._pods: dict[str, Pod] = {}
        self._version = ""
        self._list()

    @property
    def left(self) -> tuple[Pod, ...]:
        """Pods that are not gone: their objects are there, and something runs in them or may."""
        return tuple(pod for pod in self._pods.values() if pod.active)

    def await_gone(self, *, seconds: float) -> None:
        """Wait until no pod is left and none can come, or the time is up. Goes on when the API server is away for a while: what happened meanwhile it tells
        later.

        Raises ``ScaledByAnother`` when somebody else wants pods again, ``ControlPlaneUnavailable`` after a minute without an answer.
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

    def _take(self, kind: str, found: Mapping[str, Any]) -> bool:
        """Take in one event; False when the watch cannot go on from here."""
        if kind == "ERROR":
            if found.get("code") != HTTPStatus.GONE:
                raise _watch_failed(found)
            # What is too long ago cannot be told any more: an end in between was not seen.
            self._list()
            return False
        self._version = found["metadata"]["resourceVersion"]
        if kind != "BOOKMARK" and not of_another(found, self._workload.name):
            pod = pod_of(found, self._container)
            if kind == "DELETED":
                self._pods.pop(pod.uid, None)
            else:
                self._pods[pod.uid] = pod
            if pod.ended is not None:
                self._seen((pod,))
        return True

    def _list(self) -> None:
        pods, self._version = self._cluster.pods(self._workload)
        self._pods = {pod.uid: pod for pod in pods}


def _watch_failed(found: Mapping[str, Any]) -> RecoveryError:
    return ControlPlaneUnavailable(
        f"the watch of pods ended: {found.get('message')}", next_step="run this again", status=found.get("code"), doing="watch pods"
    )
