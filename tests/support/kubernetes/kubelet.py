"""What plays the kubelet, the scheduler and the provisioner of volumes: it runs the command of each pod's containers as processes of this machine.

It does what those are documented to do, and nothing more: it binds pods to its one node, runs init containers one after the other, gives a pod an address, an
environment, and directories as volumes, sends SIGTERM, waits for the grace period, kills, writes how containers ended, and only then lets the pod's object
go. A container that ends by itself is not started again here: it waits in CrashLoopBackOff. Paths below a mount are replaced in arguments and in
the environment, since these processes share one file system.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

from tests.support.kubernetes.api import Answered, Api
from tests.support.kubernetes.pod_process import PodProcesses
from tests.support.kubernetes.volumes import Volumes

NODE = "node-1"
_LOOK_SECONDS = 0.1


class Kubelet:
    """Working from the start, in a thread. While it is ``idle`` it does nothing, and its processes go on."""

    def __init__(self, api: Api, directory: Path) -> None:
        self._api, self._directory = api, directory
        self._volumes = Volumes(api, directory / "volumes")
        self._pods: dict[str, PodProcesses] = {}
        self._addresses = itertools.count(1)
        self._over = threading.Event()
        self.idle = False
        self.problems: list[str] = []
        self._register()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def running(self, namespace: str) -> dict[str, PodProcesses]:
        """The pods of a namespace that it runs, by name."""
        return {one.name: one for one in list(self._pods.values()) if one.namespace == namespace}

    def lose(self, *, lost: bool) -> None:
        """Cut the node off, or bring it back; the controllers say so of it after a while, here at once."""
        self.idle = lost
        self._set_ready("Unknown" if lost else "True")

    def close(self) -> None:
        self._over.set()
        self._thread.join(timeout=60)
        for pod in self._pods.values():
            pod.kill()

    def _register(self) -> None:
        self._api.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self._set_ready("True")

    def _set_ready(self, status: str) -> None:
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Tests",
            "message": "",
            "lastHeartbeatTime": _now(),
            "lastTransitionTime": _now(),
        }
        self._api.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"conditions": [condition]}})

    def _work(self) -> None:
        while not self._over.is_set():
            if not self.idle:
                try:
                    self._look()
                except (Answered, OSError) as error:
                    # The API server may be away. Whatever else it is shows where a test waits for a pod.
                    self.problems.append(str(error))
                    for pod in self._pods.values():
                        pod.go_on()
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        self._volumes.look()
        found = {pod["metadata"]["uid"]: pod for pod in self._api.items("/api/v1/pods")}
        for uid, pod in found.items():
            try:
                self._tend(uid, pod)
            except Answered as error:
                # Somebody else may have changed the pod at this moment.
                self.problems.append(f"{pod['metadata']['name']}: {error}")
        for uid in [uid for uid in self._pods if uid not in found]:
            # Removed by force: a kubelet ends what the API has no pod for.
            self._pods.pop(uid).kill()

    def _tend(self, uid: str, pod: Any) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": target}
            self._api.post(f"{path}/binding", binding)
            return
        if uid not in self._pods and "deletionTimestamp" not in pod["metadata"]:
            places = self._volumes.of(pod)
            if places is None:
                return
            # The pods of another process of tests have other addresses.
            number = os.getpid() % 62_500
            address = f"127.{number // 250 + 1}.{number % 250}.{next(self._addresses) % 250 + 1}"
            self._pods[uid] = PodProcesses(pod, places, address, self._directory / "pods" / uid)
        running = self._pods.get(uid)
        if running is not None:
            running.look(pod)
            if (status := running.status()) != running.written:
                self._api.patch(f"{path}/status", {"status": status})
                running.written = status
        if "deletionTimestamp" in pod["metadata"] and (running is None or running.ended):
            self._volumes.drop(uid)
            self._api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
