"""One namespace for one workload, through the API server.

The official client is an extra: it is imported when it is needed. A stop is written down in a ConfigMap beside the workload: a later start needs it, and so
does the question how the pods ended.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final, Protocol

from streams_recovery.application.http_control import Reported
from streams_recovery.application.instance_record import Ended, StopRequest
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, ControlPlaneUnavailable, NotFound, RecoveryError, Refused
from streams_recovery.core.kubernetes.controllers import (
    KEDA_GROUP,
    KEDA_PAUSED,
    KEDA_PLURAL,
    KEDA_VERSION,
    Autoscaler,
    Right,
    ScaledObject,
    autoscalers_of,
    scaled_objects_of,
)
from streams_recovery.core.kubernetes.owners import MANAGER, Owned, Owner, Suspension
from streams_recovery.core.kubernetes.workload import (
    API_KINDS,
    NodeState,
    Pod,
    PodOnNode,
    Workload,
    application_container,
    node_state,
    of_another,
    pod_of,
    workload_of,
)
from streams_recovery.core.masking import masked, remember_secrets

# An API server that is replaced or elects a leader is away for seconds.
_PATIENCE = 30.0
_RETRY_SECONDS = 0.5
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 20.0
_OK = range(200, 300)
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_NOT_ALLOWED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

_API_KINDS: Final = {"deployment": "deployment", "statefulset": "stateful_set"}
_RECORD_KEY: Final = "stop"


class Cluster:
    """Reads and writes for one workload. Raises ``ControlPlaneUnavailable``, ``ConfigInvalid`` naming a right that is missing, ``NotFound``."""

    def __init__(self, section: KubernetesRuns) -> None:
        self.section = section
        self.client = Client(section)
        self._core, self._apps = self.client.api("CoreV1Api"), self.client.api("AppsV1Api")
        self._custom = self.client.api("CustomObjectsApi")

    @property
    def owned(self) -> Owned:
        """The names of the workload, by which an owner knows it."""
        name = self.section.workload_name
        return Owned(group="apps", kind=API_KINDS[name.kind], namespace=self.section.namespace, name=name.name)

    def workload(self) -> Workload:
        """The workload as it is."""
        name = self.section.workload_name
        read = getattr(self._apps, f"read_namespaced_{_API_KINDS[name.kind]}")
        return workload_of(name, self.client.call(f"get {name}", read, name.name, self.section.namespace))

    def scale(self, replicas: int) -> None:
        """Set how many pods are wanted, and nothing else: the right to do this is not the right to change the workload."""
        name = self.section.workload_name
        patch = getattr(self._apps, f"patch_namespaced_{_API_KINDS[name.kind]}_scale")
        body = {"spec": {"replicas": replicas}}
        self.client.call(f"scale {name}", patch, name.name, self.section.namespace, body, field_manager=MANAGER)

    def container(self, workload: Workload) -> str:
        """The application's container."""
        return application_container(workload.template, self.section.container, str(workload.name))

    def pods(self, workload: Workload) -> tuple[tuple[Pod, ...], str]:
        """The selected pods, without those of other controllers, and the version from which a watch tells changes."""
        listed = self._core.list_namespaced_pod
        found = self.client.call("list pods", listed, self.section.namespace, label_selector=workload.selector)
        container = self.container(workload)
        own = [one for one in found["items"] if not of_another(one, workload.name)]
        return tuple(pod_of(one, container) for one in own), found["metadata"]["resourceVersion"]

    def pod_objects(self, workload: Workload) -> tuple[Mapping[str, Any], ...]:
        """Its pods that run or will, as the API has them."""
        found = self.client.call("list pods", self._core.list_namespaced_pod, self.section.namespace, label_selector=workload.selector)
        container = self.container(workload)
        return tuple(one for one in found["items"] if not of_another(one, workload.name) and pod_of(one, container).active)

    def pod(self, name: str, uid: str) -> Pod | None:
        """The one pod of that name and uid, whatever its labels are now; None when its object is gone."""
        found = self.client.call(
            f"get pod {name}", self._core.list_namespaced_pod, self.section.namespace, field_selector=f"metadata.name={name}"
        )
        container = self.container(self.workload())
        return next((pod_of(one, container) for one in found["items"] if one["metadata"]["uid"] == uid), None)

    def pod_events(self, workload: Workload, version: str, *, seconds: int) -> Iterator[Mapping[str, Any]]:
        """The changes at its pods."""
        return self.client.events(
            "watch pods",
            self._core.list_namespaced_pod,
            self.section.namespace,
            label_selector=workload.selector,
            resource_version=version,
            allow_watch_bookmarks=True,
            seconds=seconds,
        )

    def end_pod(self, pod: Pod, *, seconds: int) -> None:
        """Have the pod killed after ``seconds``. Never with none: that would remove the object and leave the program."""
        with contextlib.suppress(NotFound):
            self.client.call(
                f"delete pod {pod.name}", self._core.delete_namespaced_pod, pod.name, self.section.namespace, grace_period_seconds=seconds
            )

    def node(self, name: str) -> NodeState:
        """The state of a node; ``unseen`` where this may not look."""
        if not name:
            return "absent"
        try:
            return node_state(self.client.call(f"get node {name}", self._core.read_node, name))
        except NotFound:
            return "absent"
        except ConfigInvalid:
            return "unseen"

    def record(self) -> StopRecord | None:
        """The record that the last stop wrote down, None when there is none. Raises ``Damaged``."""
        name = self.section.record_name
        try:
            found = self.client.call(f"get configmap {name}", self._core.read_namespaced_config_map, name, self.section.namespace)
        except NotFound:
            return None
        text = (found.get("data") or {}).get(_RECORD_KEY)
        return codec.loads(StopRecord, text.encode(), where=f"configmap {name}") if text else None

    def write(self, record: StopRecord | None) -> None:
        """Replace what is written down, and make the ConfigMap where this may."""
        name, namespace = self.section.record_name, self.section.namespace
        data = {_RECORD_KEY: None if record is None else codec.dumps(record).decode()}
        try:
            self.client.call(f"patch configmap {name}", self._core.patch_namespaced_config_map, name, namespace, {"data": data})
        except NotFound:
            if record is not None:
                self._create_record(name, namespace, data)

    def _create_record(self, name: str, namespace: str, data: Mapping[str, str | None]) -> None:
        try:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            self.client.call(f"create configmap {name}", self._core.create_namespaced_config_map, namespace, body, patience=0)
        except ControlPlaneUnavailable as error:
            if error.facts["status"] != HTTPStatus.CONFLICT:
                raise
            # Another run that stops it has made it at this moment.
            self.client.call(f"patch configmap {name}", self._core.patch_namespaced_config_map, name, namespace, {"data": data})
        except ConfigInvalid as error:
            raise ConfigInvalid(
                f"there is no configmap {name} to write the replica count down in, and {error.reason}",
                next_step="create it, see include/kubernetes/rbac.yaml",
                record=name,
            ).then(f"kubectl create configmap {name} -n {namespace}") from error

    def autoscalers(self) -> tuple[Autoscaler, ...]:
        """The HorizontalPodAutoscalers of the workload."""
        listed = self.client.api("AutoscalingV2Api").list_namespaced_horizontal_pod_autoscaler
        found = self.client.call("list horizontalpodautoscalers", listed, self.section.namespace)
        return autoscalers_of(self.section.workload_name, found["items"])

    def has_keda(self) -> bool:
        """True when the cluster knows KEDA's objects."""
        groups = self.client.call("list the groups of the API", self.client.api("ApisApi").get_api_versions)
        return any(group["name"] == KEDA_GROUP for group in groups["groups"])

    def scaled_objects(self) -> tuple[ScaledObject, ...]:
        """KEDA's ScaledObjects of the workload."""
        if not self.has_keda():
            return ()
        listed = self._custom.list_namespaced_custom_object
        found = self.client.call("list scaledobjects", listed, KEDA_GROUP, KEDA_VERSION, self.section.namespace, KEDA_PLURAL)
        return scaled_objects_of(self.section.workload_name, found["items"])

    def pause_scaled_object(self, name: str, *, paused: bool) -> None:
        """Set or remove the annotation by which KEDA leaves a workload alone."""
        body = {"metadata": {"annotations": {KEDA_PAUSED: "true" if paused else None}}}
        patch = self._custom.patch_namespaced_custom_object
        place = (KEDA_GROUP, KEDA_VERSION, self.section.namespace, KEDA_PLURAL, name)
        self.client.call(f"patch scaledobject {name}", patch, *place, body, _content_type="application/merge-patch+json")

    def owner(self, owner: Owner) -> Mapping[str, Any]:
        """The object of a tool that owns the workload."""
        read = self._custom.get_namespaced_custom_object
        place = (owner.group, owner.version, owner.namespace, owner.plural, owner.name)
        found: Mapping[str, Any] = self.client.call(f"get {owner}", read, *place)
        return found

    def patch_owner(self, owner: Owner, body: Mapping[str, Any]) -> None:
        """Change it once, by a patch that names the version it is for. Raises ``ControlPlaneUnavailable`` where it has another one by now."""
        patch = self._custom.patch_namespaced_custom_object
        place = (owner.group, owner.version, owner.namespace, owner.plural, owner.name)
        merge = "application/merge-patch+json"
        self.client.call(f"patch {owner}", patch, *place, body, patience=0, _content_type=merge, field_manager=MANAGER)

    def missing(self, rights: Iterable[Right]) -> tuple[Right, ...]:
        """The rights among these that this does not have."""
        return tuple(right for right in rights if not self._allowed(right))

    def _allowed(self, right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        review = self.client.api("AuthorizationV1Api").create_self_subject_access_review
        return bool(self.client.call("ask for its own rights", review, body)["status"]["allowed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecord:
    """One stop. ``replicas`` is how many it had, ``paused`` are the ScaledObjects and ``suspended`` the owners that it has kept from scaling. ``wiped``: the
    state of these pods is gone.
    """

    replicas: int
    pods: tuple[StoppedPod, ...] = ()
    paused: tuple[str, ...] = ()
    suspended: tuple[Suspension, ...] = ()
    wiped: bool = False

    @property
    def instances(self) -> dict[str, str]:
        """The names of the instances by the uids of their pods."""
        return {one.uid: one.instance for one in self.pods}

    def with_ends(self, seen: Iterable[Pod]) -> StopRecord:
        """With the ends of containers that were seen. The last one counts, and none while a container runs again after one that ended."""
        pods = {pod.uid: pod for pod in seen}
        return replace(self, pods=tuple(one.seen_as(pods[one.uid]) if one.uid in pods else one for one in self.pods))

    def with_vanished(self, uids: Collection[str], at: int) -> StopRecord:
        """With the moment (milliseconds) at which the objects of these pods were gone, and no end of theirs was seen. The first one counts."""
        return replace(
            self,
            pods=tuple(
                replace(one, vanished=at) if one.uid in uids and one.ended is None and one.vanished is None else one for one in self.pods
            ),
        )

    def with_answers(self, answers: Mapping[str, bool]) -> StopRecord:
        """With what the pods said when they were asked to close, by their uids."""
        return replace(
            self,
            pods=tuple(
                replace(one, request=replace(one.request, reported_closed=answers[one.uid])) if one.uid in answers else one
                for one in self.pods
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedPod(PodOnNode):
    """One pod that was asked to end. ``container`` is the container that was asked. ``vanished`` is the moment (milliseconds) at which its object was gone
    without an end.
    """

    instance: str
    pod: str
    request: StopRequest
    vanished: int | None = None

    @property
    def end(self) -> Ended | None:
        """Its end as the other kinds of runs know it."""
        if self.ended is None:
            return None
        return Ended(run=self.uid, status=self.ended.exit_code, left_behind=0, stop_request=self._request, at=self.request.at)

    @property
    def _request(self) -> StopRequest:
        # A container that its probe or a crash has replaced after the request did not answer it: what the first one said proves nothing of this one.
        answered = self.request.reported_closed is None or (self.ended is not None and self.container == self.ended.container != "")
        return self.request if answered else replace(self.request, reported_closed=False)

    def seen_as(self, pod: Pod) -> StoppedPod:
        """With what its pod shows now."""
        runs_again = self.ended is not None and pod.ended is None and pod.container != self.ended.container
        return replace(self, ended=None if runs_again else pod.ended or self.ended, vanished=None)


def requested(
    pods: Mapping[str, Pod], reports: Mapping[str, Reported], before: StopRecord | None, *, closes: bool
) -> tuple[StoppedPod, ...]:
    """These pods, asked to end now. The state that the first request found counts: a later one finds an instance that is closing. ``closes``: they can be asked
    to close Kafka Streams, and did not answer yet.
    """
    by, at = f"{getpass.getuser()}@{platform.node()}, pid {os.getpid()}", time.time_ns() // 1_000_000
    known = {one.uid: one for one in before.pods} if before else {}
    asked = tuple(
        _same_run(known.get(pod.uid), pod)
        or StoppedPod(
            **codec.fields_of(PodOnNode, replace(pod, ended=None)),
            instance=instance,
            pod=pod.name,
            request=StopRequest(
                run=pod.uid,
                by=by,
                at=at,
                state_before=reports[instance].state if instance in reports else None,
                reported_closed=False if closes else None,
            ),
        )
        for instance, pod in pods.items()
    )
    present = {one.uid for one in asked}
    return (*(one for uid, one in known.items() if uid not in present), *asked)


def _same_run(before: StoppedPod | None, pod: Pod) -> StoppedPod | None:
    return before if before is not None and before.container == pod.container else None


class KubernetesAccess(Protocol):
    """What a connection to an API server is made with: see ``runs.kubernetes``."""

    @property
    def kubeconfig(self) -> str | None: ...

    @property
    def context(self) -> str | None: ...


class Client:
    """A connection to one API server. Raises ``ConfigInvalid`` when the client is not installed, or when there is nothing to connect with."""

    def __init__(self, section: KubernetesAccess) -> None:
        try:
            import kubernetes  # noqa: PLC0415 - only those who use it have it
            import urllib3  # noqa: PLC0415 - comes with it
        except ImportError as error:
            raise ConfigInvalid(
                f"the client for Kubernetes is not installed: {error}",
                next_step="pip install 'kafka-streams-recovery[kubernetes]' where this runs",
                extra="kubernetes",
            ) from None
        self._kubernetes: Any = kubernetes
        self._failures = (urllib3.exceptions.HTTPError, OSError)
        self._api = kubernetes.client.ApiClient(self._configuration(section))

    def api(self, name: str) -> Any:
        """One of the client's interfaces: ``CoreV1Api``."""
        return getattr(self._kubernetes.client, name)(self._api)

    def call(
        self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float = 0, patience: float | None = None, **named: Any
    ) -> Any:
        """The JSON that ``function`` of an interface answers with. It is called again while the API server is away, for ``patience`` seconds. ``doing``
        completes "this may not ...". ``seconds`` is added to the time that an answer may take.
        """
        deadline = time.monotonic() + (_PATIENCE if patience is None else patience)
        while True:
            try:
                return self._answer(doing, function, *arguments, seconds=seconds, **named)
            except ControlPlaneUnavailable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def events(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: int, **named: Any) -> Iterator[Mapping[str, Any]]:
        """The events of a watch as they come, for up to ``seconds``."""
        with self._asked(doing, function, *arguments, seconds=seconds, watch=True, timeout_seconds=seconds, **named) as answer:
            left = b""
            for piece in answer.stream(amt=None):
                *lines, left = (left + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    def _answer(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float, **named: Any) -> Any:
        with self._asked(doing, function, *arguments, seconds=seconds, **named) as answer:
            body = answer.read()
        try:
            return json.loads(body)
        except ValueError as error:
            raise failure(doing, None, f"an answer that is not JSON: {error}") from error

    @contextlib.contextmanager
    def _asked(self, doing: str, function: Callable[..., Any], *arguments: Any, seconds: float, **named: Any) -> Iterator[Any]:
        try:
            limits = (_CONNECT_SECONDS, _READ_SECONDS + seconds)
            answer = function(*arguments, **named, _preload_content=False, _request_timeout=limits)
            try:
                if answer.status not in _OK:
                    self._remember_token()
                    raise failure(doing, answer.status, _message(answer.read()))
                yield answer
            finally:
                answer.close()
        except self._kubernetes.client.ApiException as error:
            self._remember_token()
            raise failure(doing, error.status, str(error.reason)) from error
        except self._failures as error:
            raise failure(doing, None, str(error)) from error

    def _remember_token(self) -> None:
        # A service account's is another one every hour.
        keys = self._api.configuration.api_key.values()
        remember_secrets((part for key in keys for part in str(key).split()), renewed=True)

    def _configuration(self, section: KubernetesAccess) -> Any:
        configuration = self._kubernetes.client.Configuration()
        config = self._kubernetes.config
        try:
            if section.kubeconfig is None:
                config.load_incluster_config(client_configuration=configuration)
            else:
                # The file is the user's: by default the client writes tokens that it renews into it.
                config.load_kube_config(
                    config_file=section.kubeconfig, context=section.context, client_configuration=configuration, persist_config=False
                )
        except (config.ConfigException, OSError) as error:
            raise ConfigInvalid(
                f"there is nothing to connect to Kubernetes with: {error}",
                next_step="run this in a pod with a service account, or name runs.kubernetes.kubeconfig",
            ) from error
        # Calls are repeated here, where it is known what they do.
        configuration.retries = False
        return configuration


def failure(doing: str, status: int | None, message: str) -> RecoveryError:
    """The error for an answer with this HTTP status, None for no answer. ``doing`` completes "this may not ..."."""
    if status in _NOT_ALLOWED:
        return ConfigInvalid(
            f"this may not {doing}: {message}", next_step="grant it, see include/kubernetes/rbac.yaml", status=status, doing=doing
        )
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(f"cannot {doing}: {message}", next_step="check the names in runs.kubernetes", status=status, doing=doing)
    if not status or status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ControlPlaneUnavailable(
            f"cannot {doing}, the API server of Kubernetes {f'answers {status}' if status else 'does not answer'}: {message}",
            next_step="wait until it answers, then run this again",
            status=status,
            doing=doing,
        )
    return Refused(
        f"cannot {doing}, the API server answers {status}: {message}", next_step="correct what it says", status=status, doing=doing
    )


def _message(body: bytes) -> str:
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, TypeError, KeyError):
        text = body.decode(errors="replace")
    # Before it is cut: a half of a secret is not known to be one.
    return masked(text)[:500]
