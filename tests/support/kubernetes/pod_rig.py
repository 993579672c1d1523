"""An application in a control plane, for the contract suite: two pods of a StatefulSet that run http_program.py, or of a Deployment; and the control plane
with its kubelet, for as long as it is needed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from streams_recovery.application.factory import open_application
from streams_recovery.config.runs import Runs
from tests.support.applications.rig import APPLICATION_ID, PROGRAM, answers
from tests.support.kubernetes.api import Answered
from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.kubelet import Kubelet

HERE = Path(__file__).parent
PORT = 18_080
MOUNT = "/var/lib/state/kafka-streams"


class Cluster:
    """A control plane and what plays its kubelet."""

    def __init__(self, plane, kubelet):
        self.plane, self.kubelet = plane, kubelet

    @property
    def api(self):
        return self.plane.api


class PodRig:
    """What a test may do to pods behind the port's back. The same as Rig, where that is possible."""

    kind = "kubernetes"

    def __init__(self, cluster, directory, *, environment=None, per_instance=(), control=None, start_timeout=20, **shape):
        directory.mkdir(exist_ok=True)
        self.cluster, self.directory = cluster, directory
        self.namespace = shape.get("namespace") or f"t-{uuid.uuid4().hex[:8]}"
        self.names = ("counting-0", "counting-1")
        self.workload, self.claims, self.grace = shape.get("workload", "statefulset"), shape.get("claims", False), shape.get("grace", 30)
        self.environment = {
            "STATE_DIR": MOUNT,
            "APPLICATION_ID": APPLICATION_ID,
            "UNTIL": str(os.getpid()),
            "PORT": str(PORT),
            "RIG": self.namespace,
            **(environment or {}),
        }
        self.per_instance = list(per_instance)
        self.section = {
            "namespace": self.namespace,
            "workload": f"{self.workload}/counting",
            "state_directory": MOUNT,
            "port": PORT,
            "replicas": 2,
            "kubeconfig": cluster.plane.kubeconfig(),
            "control": control or {},
            "start_timeout_seconds": start_timeout,
        }
        cluster.api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        cluster.api.post(self.path(), self.manifest())
        # Until its controller has said so, a workload at zero may yet get pods: the port calls them unknown.
        wait(lambda: self.api.get(self.own()).get("status", {}).get("observedGeneration"), seconds=60)

    @property
    def api(self):
        return self.cluster.api

    def path(self, plural=None, name=None):
        """Of objects in the namespace of this rig; of its workload when none are named."""
        groups = {
            "deployments": "apps/v1",
            "statefulsets": "apps/v1",
            "horizontalpodautoscalers": "autoscaling/v2",
            "jobs": "batch/v1",
            "roles": "rbac.authorization.k8s.io/v1",
        }
        plural = plural or f"{self.workload}s"
        group = groups.get(plural)
        return f"{f'/apis/{group}' if group else '/api/v1'}/namespaces/{self.namespace}/{plural}{f'/{name}' if name else ''}"

    def own(self):
        """The path of the workload."""
        return self.path(None, "counting")

    def manifest(self):
        """The workload, at zero."""
        labels = {"app": "counting"}
        environment = [{"name": name, "value": value} for name, value in self.environment.items()]
        environment += [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in (("POD_NAME", "metadata.name"), ("HOST", "status.podIP"))
        ]
        if self.per_instance:
            environment.append({"name": "PER_INSTANCE", "value": json.dumps(self.per_instance)})
        container = {
            "name": "app",
            "image": "counting:1",
            "command": [sys.executable, str(HERE / "by_ordinal.py"), sys.executable, str(PROGRAM)],
            "env": environment,
            "volumeMounts": [{"name": "state", "mountPath": MOUNT}],
        }
        pod = {
            "containers": [container],
            "terminationGracePeriodSeconds": self.grace,
            "volumes": [] if self.claims else [{"name": "state", "emptyDir": {}}],
        }
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
        if self.workload == "deployment":
            return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "counting"}, "spec": spec}
        template = {
            "metadata": {"name": "state"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "directories", "resources": {"requests": {"storage": "1Gi"}}},
        }
        spec |= {"serviceName": "counting", "podManagementPolicy": "Parallel", "volumeClaimTemplates": [template] if self.claims else []}
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "counting"}, "spec": spec}

    def open(self):
        return open_application(Runs.model_validate({"kind": "kubernetes", "kubernetes": self.section}), APPLICATION_ID)

    def pods(self):
        """Those that run here, the oldest first."""
        running = self.cluster.kubelet.running(self.namespace).values()
        return sorted(running, key=lambda one: (one.pod["metadata"]["creationTimestamp"], one.name))

    def pod(self, name):
        return self.pods()[self.names.index(name)]

    @property
    def urls(self):
        return [f"http://{pod.address}:{PORT}" for pod in self.pods()]

    @property
    def states(self):
        return [pod.places["state"] for pod in self.pods()]

    def kill(self, name, number=signal.SIGKILL):
        pod = self.pod(name)
        pod.kill(number)
        # Until the API server knows too.
        wait(lambda: "CrashLoopBackOff" in json.dumps(self.api.get(self.path("pods", pod.name))["status"]))

    def get(self, number, path):
        with urllib.request.urlopen(self.urls[number] + path, timeout=5) as answer:
            return json.load(answer)

    def await_up(self):
        wait(lambda: len(self.urls) == 2 and all(map(answers, self.urls)), seconds=60)

    def scale(self, replicas, manager="a-second-controller", *, by="/scale"):
        """As another controller does it: by the subresource, or with ``by`` empty in the workload itself."""
        self.api.patch(f"{self.own()}{by}", {"spec": {"replicas": replicas}}, manager=manager)

    def leftovers(self):
        """Processes of this rig that still run."""
        found = []
        for process in psutil.process_iter(["pid"]):
            try:
                if process.environ().get("RIG") == self.namespace:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def close(self):
        """Remove what runs. The namespace stays, with what a failed test wants to look at."""
        try:
            self.api.delete(self.own(), {"propagationPolicy": "Background", "gracePeriodSeconds": 0})
            for pod in self.api.items(self.path("pods")):
                self.api.delete(self.path("pods", pod["metadata"]["name"]), {"gracePeriodSeconds": 0})
        except Answered as error:
            if error.status != 404:
                raise
        wait(lambda: not self.pods(), seconds=60)


def wait(condition, seconds=30):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


RECORD = "counting-streams-recovery"


def record(one: PodRig) -> Any:
    """The record of a stop, None when there is none."""
    found = one.api.get(one.path("configmaps", RECORD)).get("data") or {}
    return json.loads(found["stop"]) if "stop" in found else None


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Every process of it is gone at the end, those of pods too."""
    plane = ControlPlane(directory)
    try:
        kubelet = Kubelet(plane.api, directory / "kubelet")
        try:
            yield Cluster(plane, kubelet)
        finally:
            kubelet.close()
    finally:
        plane.close()
