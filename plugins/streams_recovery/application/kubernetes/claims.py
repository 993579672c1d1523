"""PersistentVolumeClaims with local state: deleted, or wiped by a Job in the place of the pods that are gone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.core.errors import NotFound
from streams_recovery.core.kubernetes.state_volume import StateVolume
from streams_recovery.core.names import checked_name
from streams_recovery.core.waiting import poll

_LOOK_SECONDS: Final = 0.5
_JOB_HISTORY_SECONDS: Final = 3600


class Claims:
    """The claims of one namespace."""

    def __init__(self, cluster: Cluster, settings: KubernetesSettings) -> None:
        self._call, self._settings = cluster.client.call, settings
        self._core, self._batch = cluster.client.api("CoreV1Api"), cluster.client.api("BatchV1Api")

    def names(self) -> tuple[str, ...]:
        """Every claim there is, those that are being deleted included."""
        found = self._call("list persistentvolumeclaims", self._core.list_namespaced_persistent_volume_claim, self._settings.namespace)
        return tuple(one["metadata"]["name"] for one in found["items"])

    def deleted(self, claims: Sequence[str], *, seconds: float) -> tuple[str, ...]:
        """Delete them, and return those that are still there when the time is up, each with what holds it."""
        for claim in claims:
            try:
                self._call(
                    f"delete persistentvolumeclaim {claim}",
                    self._core.delete_namespaced_persistent_volume_claim,
                    claim,
                    self._settings.namespace,
                )
            except NotFound:
                continue
        left: list[str] = []

        def gone() -> bool | None:
            left[:] = [name for name in self.names() if name in claims]
            return None if left else True

        poll(gone, seconds=seconds, interval=_LOOK_SECONDS, what="claims to be gone", message=lambda: ", ".join(left))
        return tuple(self._held(claim) for claim in left)

    def wiped(self, claims: Sequence[str], volume: StateVolume, *, seconds: float) -> tuple[str, ...]:
        """Have a Job remove the application's directory in each, and return those for which none said that it did, each with the reason."""
        deadline = time.monotonic() + seconds
        jobs = {claim: self._create(claim, volume) for claim in claims}
        ends = {claim: self._end(job, deadline) for claim, job in jobs.items()}
        for job in jobs.values():
            self._remove(job, deadline)
        return tuple(f"claim {claim}: {why}" for claim, why in ends.items() if why)

    def _held(self, claim: str) -> str:
        pods = self._call("list pods", self._core.list_namespaced_pod, self._settings.namespace)["items"]
        holders = [
            pod["metadata"]["name"]
            for pod in pods
            if any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in pod["spec"].get("volumes") or ())
        ]
        return f"claim {claim}, " + (f"which is in use by pod {', '.join(holders)}" if holders else "which no pod of the namespace uses")

    def _create(self, claim: str, volume: StateVolume) -> str:
        found = self._call(
            "create a job", self._batch.create_namespaced_job, self._settings.namespace, wiping_job(claim, volume, self._settings)
        )
        return str(found["metadata"]["name"])

    def _end(self, job: str, deadline: float) -> str:
        """Why a job did not do its work, empty when it did."""

        def ended() -> str | None:
            found = self._call(f"get job {job}", self._batch.read_namespaced_job, job, self._settings.namespace)
            conditions = {one["type"]: one for one in found["status"].get("conditions") or () if one["status"] == "True"}
            if "Complete" in conditions:
                return ""
            if "Failed" in conditions:
                return f"job {job} failed: {conditions['Failed'].get('message', '')}"
            return None

        why = poll(ended, seconds=deadline - time.monotonic(), interval=_LOOK_SECONDS, what=f"job {job} to end")
        return f"job {job} did not end in time; is the claim attached to another node?" if why is None else why

    def _remove(self, job: str, deadline: float) -> None:
        # Its pod holds the claim, which may be for one node at a time.
        delete, namespace = self._batch.delete_namespaced_job, self._settings.namespace
        self._call(f"delete job {job}", delete, job, namespace, propagation_policy="Foreground")

        def gone() -> bool | None:
            try:
                self._call(f"get job {job}", self._batch.read_namespaced_job, job, namespace)
            except NotFound:
                return True
            return None

        poll(gone, seconds=deadline - time.monotonic(), interval=_LOOK_SECONDS, what=f"job {job} to be gone")


def wiping_job(claim: str, volume: StateVolume, settings: KubernetesSettings) -> Mapping[str, Any]:
    """A Job that removes ``{state_directory}/{application.id}`` whole, and then looks that it is gone. No shell, and no rights of its own."""
    directory = f"{settings.state_directory}/{checked_name('application id', settings.application_id)}"
    mount = {key: volume.mount[key] for key in ("mountPath", "subPath") if key in volume.mount} | {"name": "state"}

    def container(name: str, *command: str) -> Mapping[str, Any]:
        return {"name": name, "image": settings.wipe_image, "command": [*command, directory], "volumeMounts": [mount]}

    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "initContainers": [container("remove", "rm", "-rf", "--")],
        "containers": [container("look", "test", "!", "-e")],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "streams-recovery-wipe-"},
        "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": _JOB_HISTORY_SECONDS, "template": {"spec": pod}},
    }
