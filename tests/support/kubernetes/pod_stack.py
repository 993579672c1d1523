"""The embedded stack with its application in pods. Only the ``runs`` section is another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embedded.stack import Stack
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.config.runs import Runs
from streams_recovery.operations.context import RecoveryContext

NAMESPACE, NAME, PORT, MOUNT = "shop", "order-processor", 18_080, "/var/lib/state/kafka-streams"
_REPLICAS = 2


def in_pods(cluster: Any) -> type[Stack]:
    """The kind of stack whose application runs in this cluster."""

    class PodStack(Stack):
        def config(self) -> ApplicationConfig:
            """The example's configuration with that. What it cannot have with it, sandboxes of processes, is left out."""
            found = super().config()
            runs = Runs.model_validate(runs_in(cluster, found))
            return found.model_copy(update={"runs": runs, "drill": None, "reprocess": None, "clone": None})

    return PodStack


def runs_in(cluster: Any, config: ApplicationConfig) -> dict[str, Any]:
    """The ``runs`` section of an application in pods, which are made as its processes are: command and environment are theirs."""
    _make(cluster.api, config)
    section = {
        "namespace": NAMESPACE,
        "workload": f"statefulset/{NAME}",
        "state_directory": MOUNT,
        "port": PORT,
        "replicas": _REPLICAS,
        "claims": "delete",
        "kubeconfig": cluster.plane.kubeconfig(),
        "control": config.runs.chosen.control.model_dump(),  # type: ignore[attr-defined]
    }
    return {"kind": "kubernetes", "kubernetes": section}


def pod_killer(cluster: Any) -> Callable[[RecoveryContext], None]:
    """What kills every pod without a word to it, and lets none come in its place."""

    def kill(_recovery: RecoveryContext) -> None:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}"
        for pod in cluster.kubelet.running(NAMESPACE).values():
            pod.kill()
        cluster.api.patch(path, {"spec": {"replicas": 0}})

    return kill


def _make(api: Any, config: ApplicationConfig) -> None:
    """The namespace and the workload, at zero."""
    if api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
    if api.find(f"{path}/{NAME}") is None:
        api.post(path, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": NAME}, "spec": _spec(config.runs.chosen)})


def _spec(section: Any) -> dict[str, Any]:
    """The command and the environment of the processes, in a container."""
    environment = {**section.environment, "HTTP_PORT": str(PORT), "STATE_DIR": MOUNT}
    container = {
        "name": "app",
        "image": f"{NAME}:1",
        "command": list(section.command),
        "env": [
            *({"name": name, "value": value} for name, value in environment.items()),
            {"name": "HTTP_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "volumeMounts": [{"name": "state", "mountPath": MOUNT}],
    }
    claim = {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "directories", "resources": {"requests": {"storage": "1Gi"}}},
    }
    labels = {"app": NAME}
    return {
        "replicas": 0,
        "serviceName": NAME,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 60}},
        "volumeClaimTemplates": [claim],
    }
