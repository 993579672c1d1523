"""Local state of a workload at zero: proven gone with its pods, or wiped on the claims that outlive them.

A Job wipes a claim, in the place of the pods that are gone.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any, Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.application.port import StateSince, WipeMark, WipeReport
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, ControlPlaneUnavailable, NotFound
from streams_recovery.core.kubernetes.workload import StateVolume, Workload, claims_of, state_volume
from streams_recovery.core.names import checked_name
from streams_recovery.core.waiting import poll

_LOOK_SECONDS: Final = 0.5
_JOB_HISTORY_SECONDS: Final = 3600
_REMOVE_SECONDS: Final = 10.0
# Whose a Job is, in its annotations.
CLAIM, APPLICATION, WIPE = (f"kafka-streams-recovery/{what}" for what in ("claim", "application", "wipe"))
# What of a pod decides where it may run and to whom its files belong.
_AS_THE_APPLICATION: Final = ("securityContext", "imagePullSecrets", "tolerations", "nodeSelector", "runtimeClassName", "priorityClassName")
# A namespace with a quota takes no pod without.
_LITTLE: Final = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}


def wiped(cluster: Cluster, application_id: str) -> WipeReport:
    """Wipe the state of a workload whose pods are all gone."""
    workload, section = cluster.workload(), cluster.section
    volume = wipeable(cluster, workload, application_id)
    if volume.lasting == "pod":
        return replace(_gone_with_pods(cluster), marks=(left_by(cluster, ()),))
    claims = Claims(cluster)
    names = claims_of(volume, workload, claims.names())
    if section.claims == "delete":
        remaining = claims.deleted(names, seconds=section.start_timeout)
    else:
        remaining = WipingJobs(cluster, application_id, workload.template["spec"]).wipe(names, volume, seconds=section.start_timeout)
    held = [name for name in names if any(left.startswith((f"claim {name},", f"claim {name}:")) for left in remaining)]
    emptied = names if section.claims == "job" else ()
    removed = tuple(f"claim {name}" for name in names if name not in held)
    return WipeReport(removed=removed, remaining=remaining, marks=(left_by(cluster, emptied),))


def wipeable(cluster: Cluster, workload: Workload, application_id: str) -> StateVolume:
    """The volume with the state. Raises ``ConfigInvalid`` when it could not be wiped."""
    section = cluster.section
    volume = state_volume(
        workload, cluster.container(workload), section.state_directory, application_id, without_state=section.volumes_without_state
    )
    if volume.lasting != "pod" and section.claims is None:
        raise ConfigInvalid(
            f"the state of {section.workload} lies on claims that outlive its pods: {volume.name}",
            next_step="set runs.kubernetes.claims to delete or to job",
            setting=f"runs.kubernetes.claims: {'delete' if volume.lasting == 'templates' else 'job'}",
            claim=volume.name,
        )
    if volume.lasting != "pod" and section.claims == "job" and PurePosixPath(volume.mount["mountPath"]).name == application_id:
        raise ConfigInvalid(
            f"{volume.name} of {section.workload} is mounted at {volume.mount['mountPath']}: a job removes that directory, and a mounted one cannot be removed",
            next_step=f"mount it at {section.state_directory}",
            claim=volume.name,
        )
    if volume.lasting == "claim" and section.claims == "delete":
        raise ConfigInvalid(
            f"claims is delete, and nothing would make claim {volume.name} of {section.workload} again",
            next_step="set runs.kubernetes.claims to job",
            setting="runs.kubernetes.claims: job",
            claim=volume.name,
        )
    return volume


def require_no_wipe(cluster: Cluster, application_id: str, workload: Workload) -> None:
    """Remove Jobs that a run which was killed has left: one that gets its claim later would wipe the state of an application that runs. Raises
    ``ApplicationNotReady`` for those that do not go.
    """
    section = cluster.section
    if section.claims != "job":
        return
    try:
        volume = wipeable(cluster, workload, application_id)
    except ConfigInvalid:
        # No job was ever made for such state. The preflight check of a restore says so, and a savepoint need not.
        return
    names = claims_of(volume, workload, Claims(cluster).names())
    left = WipingJobs(cluster, application_id, workload.template["spec"]).remove(names, seconds=section.start_timeout)
    if left:
        raise ApplicationNotReady(
            f"jobs that wipe the state of {section.workload} are still there: {', '.join(left)}",
            next_step="see why they do not go (kubectl describe job), then run this again",
            jobs=left,
        )


def left_by(cluster: Cluster, emptied: Sequence[str]) -> WipeMark:
    """The pods and claims that were there when a wipe had ended: by their ids those that are made later are known. Jobs have ``emptied`` these claims."""
    claims, record = _claims_seen(cluster), cluster.record()
    pods = {one.uid for one in cluster.pods(cluster.workload())[0]} | ({one.uid for one in record.pods} if record else set())
    wiped_claims = tuple(sorted(claims[name] for name in emptied if name in claims))
    return WipeMark(place=cluster.section.workload, known=tuple(sorted({*pods, *claims.values()})), wiped=wiped_claims)


def seen_since(cluster: Cluster, application_id: str, marks: Sequence[WipeMark]) -> StateSince:
    """The volume of each pod's state, by the pod's own specification and not by the workload's, and whether that volume is younger than the wipe. The files in
    a volume are not looked at.
    """
    mark = next((one for one in marks if one.place == cluster.section.workload), None)
    workload = cluster.workload()
    pods = cluster.pod_objects(workload)
    if mark is None:
        return StateSince(unseen=("no wipe has noted which volumes there were",))
    # By the template: a pod has other containers too, which something in the cluster has put into it, such as those of a service mesh.
    claims, container, section = _claims_seen(cluster), cluster.container(workload), cluster.section
    found: dict[str, list[str]] = {"fresh": [], "stale": [], "unseen": []}
    for pod in pods:
        name, own = pod["metadata"]["name"], replace(workload, template={"spec": pod["spec"]}, claim_templates=())
        beside = {one["name"] for one in pod["spec"].get("volumes") or ()}
        if container not in {one["name"] for one in pod["spec"]["containers"]}:
            found["unseen"].append(f"pod {name}: it has no container {container}")
            continue
        try:
            volume = state_volume(own, container, section.state_directory, application_id, without_state=beside)
        except ConfigInvalid as error:
            found["stale"].append(f"pod {name}: {error.reason}")
            continue
        kind, text = _age(volume, pod["metadata"]["uid"], claims, mark)
        found[kind].append(f"pod {name}: {text}")
    return StateSince(**{kind: tuple(texts) for kind, texts in found.items()})


def _age(volume: StateVolume, uid: str, claims: Mapping[str, str], mark: WipeMark) -> tuple[str, str]:
    if volume.lasting == "pod":
        if uid in mark.known:
            return "stale", "it is a pod from before the wipe, with its volume"
        return "fresh", "its volume was made with it, after the wipe"
    claim = claims.get(volume.name)
    if claim is None:
        return "unseen", f"its state is on claim {volume.name}, which nothing here may look at (list persistentvolumeclaims)"
    if claim in mark.wiped:
        return "unseen", f"a job has emptied claim {volume.name}, and nobody can look into it from here while the pod runs"
    if claim in mark.known:
        return "stale", f"its state is on claim {volume.name}, which was there before and is not one that was wiped"
    return "fresh", f"claim {volume.name} was made after the wipe"


def _claims_seen(cluster: Cluster) -> Mapping[str, str]:
    """The ids of claims by name; empty if this process may not list claims, a right that only state on claims needs."""
    try:
        return Claims(cluster).ids()
    except ConfigInvalid:
        return {}


def _gone_with_pods(cluster: Cluster) -> WipeReport:
    """The pods that were stopped are gone, so their state is: no other pod ever gets a volume of theirs."""
    record = cluster.record()
    gone = [one.pod for one in record.pods] if record and not record.wiped else []
    if record is not None:
        cluster.write(replace(record, wiped=True))
    return WipeReport(removed=tuple(f"{cluster.section.state_directory} of pod {pod}" for pod in gone), remaining=())


class WipingJobs:
    """The Jobs of one application, one for each claim at most. ``pod`` is the specification of the application's pods: a Job runs where and as whom they
    do. A Job of such a name that does not say that it is this application's is neither removed nor believed.
    """

    def __init__(self, cluster: Cluster, application_id: str, pod: Mapping[str, Any]) -> None:
        self._call, self._section, self._application_id, self._pod = cluster.client.call, cluster.section, application_id, pod
        self._wipe = uuid.uuid4().hex
        self._batch = cluster.client.api("BatchV1Api")

    def wipe(self, claims: Sequence[str], volume: StateVolume, *, seconds: float) -> tuple[str, ...]:
        """Have a Job remove the application's directory in each, and return those for which none said that it did, each with the reason. No Job is left."""
        deadline = time.monotonic() + seconds
        names = {claim: job_name(claim, self._application_id) for claim in claims}
        stuck = self.remove(claims, seconds=seconds)
        if stuck:
            return tuple(f"claim {claim}: job {job} of an earlier run is still there" for claim, job in names.items() if job in stuck)
        refused = {claim: why for claim in claims if (why := self._created(claim, names[claim], volume, seconds))}
        ends = refused | {claim: self._end(names[claim], deadline) for claim in claims if claim not in refused}
        left = self.remove(claims, seconds=max(_REMOVE_SECONDS, deadline - time.monotonic()))
        ends |= {claim: f"job {job} is still there" for claim, job in names.items() if job in left}
        return tuple(f"claim {claim}: {ends[claim]}" for claim in claims if ends[claim])

    def remove(self, claims: Sequence[str], *, seconds: float) -> tuple[str, ...]:
        """Remove the application's Jobs that wipe these claims, with their pods, and return those that are still there when the time is up."""
        deadline = time.monotonic() + seconds
        named = {claim: job_name(claim, self._application_id) for claim in claims}
        jobs = [job for claim, job in named.items() if (found := self._job(job)) is not None and self._is_own(found, claim)]
        for job in jobs:
            delete = self._batch.delete_namespaced_job
            # Its pod holds the claim, which may be for one node at a time.
            with contextlib.suppress(NotFound):
                self._call(f"delete job {job}", delete, job, self._section.namespace, propagation_policy="Foreground")
        what = "jobs that wipe claims to be gone"
        for job in jobs:
            poll(lambda job=job: self._job(job) is None or None, seconds=deadline - time.monotonic(), interval=_LOOK_SECONDS, what=what)  # type: ignore[misc]
        return tuple(job for job in jobs if self._job(job) is not None)

    def _created(self, claim: str, name: str, volume: StateVolume, seconds: float) -> str:
        """Create the Job. Returns why it is not there, empty when it is."""
        body = wiping_job(claim, volume, self._section, self._application_id, self._pod, wipe=self._wipe, seconds=seconds)
        try:
            self._call("create a job", self._batch.create_namespaced_job, self._section.namespace, body)
        except ControlPlaneUnavailable as error:
            if error.facts["status"] != HTTPStatus.CONFLICT:
                raise
            # The answer to the first request may have been lost, and the job is there. Any other one wipes something else, or did so long ago.
            found = self._job(name)
            if found is None or not self._is_of_this_wipe(found):
                return f"a job {name} that is not of this wipe is there; see whose it is (kubectl describe job {name}), and remove it"
        return ""

    def _is_own(self, found: Mapping[str, Any], claim: str) -> bool:
        written = found["metadata"].get("annotations") or {}
        return (written.get(CLAIM), written.get(APPLICATION)) == (claim, self._application_id)

    def _is_of_this_wipe(self, found: Mapping[str, Any]) -> bool:
        return bool((found["metadata"].get("annotations") or {}).get(WIPE) == self._wipe)

    def _job(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._call(f"get job {name}", self._batch.read_namespaced_job, name, self._section.namespace)
        except NotFound:
            return None
        return found

    def _end(self, job: str, deadline: float) -> str:
        """Wait for a job's end. Returns why it did not do its work, empty when it did."""

        def ended() -> str | None:
            found = self._job(job)
            if found is None:
                return f"somebody removed job {job}"
            if not self._is_of_this_wipe(found):
                return f"somebody replaced job {job}"
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


def job_name(claim: str, application_id: str) -> str:
    """The name of the Job that wipes an application's directory on a claim: there is one of them at most, whichever run began it."""
    return f"streams-recovery-wipe-{hashlib.sha256(f'{claim}/{application_id}'.encode()).hexdigest()[:16]}"


def wiping_job(
    claim: str, volume: StateVolume, section: KubernetesRuns, application_id: str, pod: Mapping[str, Any], *, wipe: str, seconds: float
) -> Mapping[str, Any]:
    """A Job that removes ``{state_directory}/{application.id}`` whole, and then looks that it is gone. No shell, and no rights of its own. It runs where
    and as whom the application's ``pod`` does, to whom the files belong, and is ended after ``seconds``. ``wipe`` is the
    name of one call of ``WipingJobs.wipe``.
    """
    directory = f"{section.state_directory}/{checked_name('application id', application_id)}"
    mount = {key: volume.mount[key] for key in ("mountPath", "subPath") if key in volume.mount} | {"name": "state"}
    own = next(one for one in pod["containers"] if one["name"] == (section.container or pod["containers"][0]["name"]))
    as_whom = {key: own[key] for key in ("securityContext",) if key in own}

    def container(name: str, *command: str) -> Mapping[str, Any]:
        return {
            "name": name,
            "image": section.wipe_image,
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
        "metadata": {
            "name": job_name(claim, application_id),
            "annotations": {CLAIM: claim, APPLICATION: application_id, WIPE: wipe},
        },
        "spec": {**limits, "template": {"spec": spec}},
    }


class Claims:
    """The claims of one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._call, self._namespace, self._core = cluster.client.call, cluster.section.namespace, cluster.client.api("CoreV1Api")

    def names(self) -> tuple[str, ...]:
        """Every claim there is, those that are being deleted included."""
        return tuple(self.ids())

    def ids(self) -> Mapping[str, str]:
        """The uid of each, by its name."""
        found = self._call("list persistentvolumeclaims", self._core.list_namespaced_persistent_volume_claim, self._namespace)
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found["items"]}

    def deleted(self, claims: Sequence[str], *, seconds: float) -> tuple[str, ...]:
        """Delete the claims, and return those that are still there when the time is up, each with the reason."""
        for claim in claims:
            try:
                self._call(
                    f"delete persistentvolumeclaim {claim}",
                    self._core.delete_namespaced_persistent_volume_claim,
                    claim,
                    self._namespace,
                )
            except NotFound:
                continue
        left: list[str] = []

        def gone() -> bool | None:
            left[:] = [name for name in self.names() if name in claims]
            return None if left else True

        poll(gone, seconds=seconds, interval=_LOOK_SECONDS, what="claims to be gone", message=lambda: ", ".join(left))
        return tuple(self._held(claim) for claim in left)

    def _held(self, claim: str) -> str:
        pods = self._call("list pods", self._core.list_namespaced_pod, self._namespace)["items"]
        holders = [
            pod["metadata"]["name"]
            for pod in pods
            if any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in pod["spec"].get("volumes") or ())
        ]
        return f"claim {claim}, " + (f"which is in use by pod {', '.join(holders)}" if holders else "which no pod of the namespace uses")
