"""What is read from and written to one namespace for one workload."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from streams_recovery.application.kubernetes.client import Client
from streams_recovery.application.kubernetes.record import StopRecord
from streams_recovery.config.runs import KubernetesRuns
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.kubernetes.autoscalers import (
    KEDA_GROUP,
    KEDA_PAUSED,
    KEDA_PLURAL,
    KEDA_VERSION,
    Autoscaler,
    ScaledObject,
    autoscalers_of,
    scaled_objects_of,
)
from streams_recovery.core.kubernetes.owners import Owner
from streams_recovery.core.kubernetes.pods import NodeState, Pod, application_container, node_state, of_another, pod_of
from streams_recovery.core.kubernetes.rights import Right
from streams_recovery.core.kubernetes.workload import Workload, workload_of

_RECORD_KEY: Final = "stop"
_MANAGER: Final = "kafka-streams-recovery"


class Cluster:
    """See the module. Raises ``ControlPlaneUnavailable``, ``ConfigInvalid`` naming a right that is missing, ``NotFound``."""

    def __init__(self, section: KubernetesRuns) -> None:
        self.section = section
        self.client = Client(section)
        self._core, self._apps = self.client.api("CoreV1Api"), self.client.api("AppsV1Api")
        self._custom = self.client.api("CustomObjectsApi")

    def workload(self) -> Workload:
        """The workload as it is."""
        name = self.section.workload_name
        kind = {"deployment": "deployment", "statefulset": "stateful_set"}[name.kind]
        read = getattr(self._apps, f"read_namespaced_{kind}")
        return workload_of(name, self.client.call(f"get {name}", read, name.name, self.section.namespace))

    def scale(self, replicas: int) -> None:
        """Set how many pods are wanted, and nothing else: the right to do this is not the right to change the workload."""
        name = self.section.workload_name
        kind = {"deployment": "deployment", "statefulset": "stateful_set"}[name.kind]
        patch = getattr(self._apps, f"patch_namespaced_{kind}_scale")
        body = {"spec": {"replicas": replicas}}
        self.client.call(f"scale {name}", patch, name.name, self.section.namespace, body, field_manager=_MANAGER)

    def container(self, workload: Workload) -> str:
        """The application's container."""
        return application_container(workload.template, self.section.container, str(workload.name))

    def pods(self, workload: Workload) -> tuple[tuple[Pod, ...], str]:
        """The pods that it selects, without those of other controllers, and the version from which a watch tells what changes."""
        listed = self._core.list_namespaced_pod
        found = self.client.call("list pods", listed, self.section.namespace, label_selector=workload.selector)
        container = self.container(workload)
        own = [one for one in found["items"] if not of_another(one, workload.name)]
        return tuple(pod_of(one, container) for one in own), found["metadata"]["resourceVersion"]

    def pod_events(self, workload: Workload, version: str, *, seconds: int) -> Iterator[Mapping[str, Any]]:
        """What changes at its pods."""
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
        """How a node is; ``unseen`` where this may not look."""
        if not name:
            return "absent"
        try:
            return node_state(self.client.call(f"get node {name}", self._core.read_node, name))
        except NotFound:
            return "absent"
        except ConfigInvalid:
            return "unseen"

    def record(self) -> StopRecord | None:
        """What the last stop wrote down, None when nothing is. Raises ``Damaged``."""
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
            self.client.call(f"create configmap {name}", self._core.create_namespaced_config_map, namespace, body)
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

    def missing(self, rights: Iterable[Right]) -> tuple[Right, ...]:
        """Those of the rights that this does not have."""
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
