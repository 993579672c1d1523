"""Objects of other tools, as those would make them: autoscalers, KEDA, Argo CD, Flux, and who may do what."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import yaml

from tests.support.kubernetes.api import Answered
from tests.support.kubernetes.pod_rig import wait
from tests.support.project import PROJECT

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
RIGHTS = PROJECT / "include" / "kubernetes" / "rbac.yaml"


def autoscaler(rig: Any, *, least: int = 1) -> Any:
    """A HorizontalPodAutoscaler of the rig's workload."""
    kind = {"deployment": "Deployment", "statefulset": "StatefulSet"}[rig.workload]
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    # Only a metric that exists without pods may scale from zero.
    queue = {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "80"}}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "counting"},
        "minReplicas": least,
        "maxReplicas": 4,
        "metrics": [cpu if least else queue],
    }
    body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler"}, "spec": spec}
    return rig.api.post(rig.path("horizontalpodautoscalers"), body)


def condition(rig: Any) -> tuple[str, str]:
    """The autoscaler's word on whether it is on, with its reason."""
    found = rig.api.get(rig.path("horizontalpodautoscalers", "scaler"))
    conditions = {one["type"]: one for one in (found.get("status") or {}).get("conditions") or ()}
    active = conditions.get("ScalingActive", {})
    return active.get("status", ""), active.get("reason", "")


def define(api: Any, namespace: str, group: str, version: str, kind: str, plural: str) -> str:
    """Make the API server know a kind of object, unless it does. Returns the path of those in the namespace, once it serves them."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if api.find(f"{path}/{plural}.{group}") is None:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
        names = {"plural": plural, "singular": kind.lower(), "kind": kind}
        body = {
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }
        api.post(path, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **body})
    objects = f"/apis/{group}/{version}/namespaces/{namespace}/{plural}"
    wait(lambda: _served(api, objects))
    return objects


def _served(api: Any, path: str) -> bool:
    try:
        return api.find(path) is not None
    except Answered as error:
        # It knows the kind, and does not serve it yet.
        if error.status == HTTPStatus.TOO_MANY_REQUESTS:
            return False
        raise


def rights(rig: Any, *parts: str, without: str = "") -> str:
    """The token of a user who has what the manifest in include/kubernetes gives for this rig's workload, with ``parts`` of it that are comments; without the
    rights on one resource.
    """
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "streams-recovery"}}
    rig.api.post(rig.path("serviceaccounts"), account)
    for found in yaml.safe_load_all(uncommented(_of(rig), parts)):
        _create(rig, found, without)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = rig.api.post(f"{rig.path('serviceaccounts', 'streams-recovery')}/token", request)
    return str(answer["status"]["token"])


def may_see_owner(rig: Any, group: str, plural: str, name: str, verbs: list[str]) -> None:
    """Give the user of ``rights`` what the manifest's last part gives on the owner of the rig's workload, with these verbs of it."""
    text = RIGHTS.read_text()
    part = text[text.index("\n# ---\n") :].replace("\n# ", "\n").replace("\n#\n", "\n\n")
    part = part.replace("namespace: argocd", f"namespace: {rig.namespace}").replace("namespace: airflow", f"namespace: {rig.namespace}")
    for found in yaml.safe_load_all(part):
        for rule in (found or {}).get("rules", ()):
            rule |= {"apiGroups": [group], "resources": [plural], "resourceNames": [name]}
            rule["verbs"] = [one for one in rule["verbs"] if one in verbs]
        if found:
            _create(rig, found, "")


def _of(rig: Any) -> str:
    """The manifest as a person would fill it in for this rig."""
    text = RIGHTS.read_text().replace("resources: [deployments", f"resources: [{rig.workload}s")
    text = text.replace("namespace: shop", f"namespace: {rig.namespace}").replace("namespace: airflow", f"namespace: {rig.namespace}")
    return (
        text.replace("[orders]", "[counting]")
        .replace("orders-streams-recovery", "counting-streams-recovery")
        .replace("streams-recovery-nodes", f"nodes-{rig.namespace}")
    )


def uncommented(text: str, parts: tuple[str, ...]) -> str:
    """The manifest with these parts, each named by the comment above it."""
    lines, wanted = [], False
    for line in text.splitlines():
        rule = line.startswith(("  # - ", "  #   "))
        wanted = wanted if rule else line.strip().startswith(tuple(f"# {part}" for part in parts)) if parts else False
        lines.append(f"  {line[4:]}" if rule and wanted else line)
    return "\n".join(lines)


def _create(rig: Any, found: Any, without: str) -> None:
    kind, namespace = found["kind"], rig.namespace
    rules = [rule for rule in found.get("rules", ()) if not without or without not in rule["resources"]]
    body = {**found, "rules": rules} if "rules" in found else found
    places = {
        "ConfigMap": f"/api/v1/namespaces/{namespace}/configmaps",
        "Role": f"{_RBAC}/namespaces/{namespace}/roles",
        "RoleBinding": f"{_RBAC}/namespaces/{namespace}/rolebindings",
        "ClusterRole": f"{_RBAC}/clusterroles",
        "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    }
    rig.api.post(places[kind], body)
