"""Jobs that wipe local state on claims, in the place of the pods that are gone."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.kubernetes.settings import KubernetesSettings
from streams_recovery.core.errors import ControlPlaneUnavailable, NotFound
from streams_recovery.core.kubernetes.state_volume import StateVolume
from streams_recovery.core.names import checked_name
from streams_recovery.core.waiting import poll

_LOOK_SECONDS: Final = 0.5
_JOB_HISTORY_SECONDS: Final = 3600
_REMOVE_SECONDS: Final = 10.0
# What of a pod decides where it may run and to whom its files belong.
_AS_THE_APPLICATION: Final = ("securityContext", "imagePullSecrets", "tolerations", "nodeSelector", "runtimeClassName", "priorityClassName")
# A namespace with a quota takes no pod without.
_LITTLE: Final = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}


class WipingJobs:
    """The Jobs of one namespace, one for each claim at most. ``pod`` is the specification of the application's pods: a Job runs where and as whom they do."""

    def __init__(self, cluster: Cluster, settings: KubernetesSettings, pod: Mapping[str, Any]) -> None:
        self._call, self._settings, self._pod = cluster.client.call, settings, pod
        self._batch = cluster.client.api("BatchV1Api")

    def wipe(self, claims: Sequence[str], volume: StateVolume, *, seconds: float) -> tuple[str, ...]:
        """Have a Job remove the application's directory in each, and return those for which none said that it did, each with the reason. No Job is left."""
        deadline = time.monotonic() + seconds
        stuck = self.remove(claims, seconds=seconds)
        if stuck:
            return tuple(
                f"claim {claim}: job {job_name(claim)} of an earlier run is still there" for claim in claims if job_name(claim) in stuck
            )
        for claim in claims:
            self._create(claim, volume, seconds)
        ends = {claim: self._end(job_name(claim), deadline) for claim in claims}
        left = self.remove(claims, seconds=max(_REMOVE_SECONDS, deadline - time.monotonic()))
        ends |= {claim: f"job {job_name(claim)} is still there" for claim in claims if job_name(claim) in left}
        return tuple(f"claim {claim}: {why}" for claim, why in ends.items() if why)

    def remove(self, claims: Sequence[str], *, seconds: float) -> tuple[str, ...]:
        """Remove the Jobs that wipe these claims, with their pods, and return those that are still there when the time is up."""
        deadline = time.monotonic() + seconds
        jobs = [job for claim in claims if self._job(job := job_name(claim)) is not None]
        for job in jobs:
            delete = self._batch.delete_namespaced_job
            # Its pod holds the claim, which may be for one node at a time.
            with contextlib.suppress(NotFound):
                self._call(f"delete job {job}", delete, job, self._settings.namespace, propagation_policy="Foreground")
        what = "jobs that wipe claims to be gone"
        for job in jobs:
            poll(lambda job=job: self._job(job) is None or None, seconds=deadline - time.monotonic(), interval=_LOOK_SECONDS, what=what)  # type: ignore[misc]
        return tuple(job for job in jobs if self._job(job) is not None)

    def _create(self, claim: str, volume: StateVolume, seconds: float) -> None:
        body = wiping_job(claim, volume, self._settings, self._pod, seconds=seconds)
        try:
            self._call("create a job", self._batch.create_namespaced_job, self._settings.namespace, body)
        except ControlPlaneUnavailable as error:
            # The answer to the first request was lost, and the job is there.
            if error.facts["status"] != HTTPStatus.CONFLICT:
                raise

    def _job(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._call(f"get job {name}", self._batch.read_namespaced_job, name, self._settings.namespace)
        except NotFound:
            return None
        return found

    def _end(self, job: str, deadline: float) -> str:
        """Why a job did not do its work, empty when it did."""

        def ended() -> str | None:
            found = self._job(job)
            if found is None:
                return f"somebody removed job {job}"
            conditions = {one["type"]: one for one in found["status"].get("conditions") or () if one["status"] == "True"}
            if "Complete" in conditions:
                return ""
            if "Failed" in conditions:
                return f"job {job} failed: {conditions['Failed'].get('message', '')}"
            return None

        why = poll(ended, seconds=deadline - time.monotonic(), interval=_LOOK_SECONDS, what=f"job {job} to end")
        if why is None:
            return f"job {job} did not end in time: its pod may be refused by the namespace, or the claim attached to another node"
        return why


def job_name(claim: str) -> str:
    """The name of the Job that wipes a claim: there is one of them at most, whoever began it."""
    return f"streams-recovery-wipe-{hashlib.sha256(claim.encode()).hexdigest()[:16]}"


def wiping_job(
    claim: str, volume: StateVolume, settings: KubernetesSettings, pod: Mapping[str, Any], *, seconds: float
) -> Mapping[str, Any]:
    """A Job that removes ``{state_directory}/{application.id}`` whole, and then looks that it is gone. No shell, and no rights of its own. It runs where
    and as whom the application's ``pod`` does, to whom the files belong, and is ended after ``seconds``.
    """
    directory = f"{settings.state_directory}/{checked_name('application id', settings.application_id)}"
    mount = {key: volume.mount[key] for key in ("mountPath", "subPath") if key in volume.mount} | {"name": "state"}
    own = next(one for one in pod["containers"] if one["name"] == (settings.container or pod["containers"][0]["name"]))
    as_whom = {key: own[key] for key in ("securityContext",) if key in own}

    def container(name: str, *command: str) -> Mapping[str, Any]:
        return {
            "name": name,
            "image": settings.wipe_image,
            "command": [*command, directory],
            "volumeMounts": [mount],
            "resources": _LITTLE,
            **as_whom,
        }

    spec = {
        **{key: pod[key] for key in _AS_THE_APPLICATION if key in pod},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "initContainers": [container("remove", "rm", "-rf", "--")],
        "containers": [container("look", "test", "!", "-e")],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": claim}}],
    }
    limits = {"backoffLimit": 0, "activeDeadlineSeconds": max(1, round(seconds)), "ttlSecondsAfterFinished": _JOB_HISTORY_SECONDS}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job_name(claim), "annotations": {"kafka-streams-recovery/claim": claim}},
        "spec": {**limits, "template": {"spec": spec}},
    }
