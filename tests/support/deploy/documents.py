"""Documents of Kubernetes as data: where pods are in them, and whether they name each other rightly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from streams_recovery.core.kubernetes.controllers import Right
from tests.support.project import PROJECT

DEPLOY = PROJECT / "deploy"
MANIFESTS = DEPLOY / "manifests"
Document = dict[str, Any]
# The longest name from which the names of a CronJob's jobs and pods can be made.
_LONGEST = {"CronJob": 52, "Job": 63}


def documents_in(*files: Path) -> list[Document]:
    """The documents of files, in their order."""
    return [found for file in files for found in yaml.safe_load_all(file.read_text()) if found]


def title(document: Document) -> str:
    """Kind and name. A template of a pod has no name."""
    return f"{document['kind']} {document['metadata'].get('name', 'template')}"


def pod_spec(document: Document) -> Document | None:
    """The pod of a document; None where there is none."""
    spec = document.get("spec", {})
    match document["kind"]:
        case "Pod":
            return spec
        case "Job" | "Deployment":
            return spec["template"]["spec"]
        case "CronJob":
            return spec["jobTemplate"]["spec"]["template"]["spec"]
    return None


def containers(documents: Iterable[Document]) -> Iterator[tuple[Document, Document]]:
    """Every container, with its document."""
    for document in documents:
        pod = pod_spec(document) or {}
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            yield document, container


def names(documents: Iterable[Document], kind: str) -> set[str]:
    """The names of the documents of a kind."""
    return {document["metadata"]["name"] for document in documents if document["kind"] == kind}


def rules_of(documents: Iterable[Document]) -> list[Document]:
    """The rules of every role."""
    return [rule for document in documents if document["kind"] in ("Role", "ClusterRole") for rule in document["rules"]]


def granted(rules: Iterable[Document]) -> set[tuple[str, str, str, str]]:
    """Verb, group, kind and name of every right that these rules give."""
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }


def needed(rights: Iterable[Right]) -> set[tuple[str, str, str, str]]:
    """What the product asks for, in the same form."""
    return {(right.verb, right.group, right.resource, right.name) for right in rights}


def reference_problems(documents: Sequence[Document], *, existing: Iterable[str] = ()) -> list[str]:
    """What is named and is not there. ``existing`` are ServiceAccounts and ConfigMaps that somebody else makes."""
    accounts = names(documents, "ServiceAccount") | set(existing)
    configs = names(documents, "ConfigMap") | set(existing)
    found = []
    for document in documents:
        longest = _LONGEST.get(document["kind"], 253)
        if len(document["metadata"]["name"]) > longest:
            found.append(f"{title(document)}: longer than {longest} characters")
        pod = pod_spec(document)
        if pod is not None:
            found += [f"{title(document)}: {problem}" for problem in _pod_problems(pod, accounts, configs)]
        if document["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            role = document["roleRef"]
            found += [f"{title(document)}: no {role['kind']} {role['name']}"] * (role["name"] not in names(documents, role["kind"]))
            found += [f"{title(document)}: no ServiceAccount {one['name']}" for one in document["subjects"] if one["name"] not in accounts]
    return found


def _pod_problems(pod: Document, accounts: set[str], configs: set[str]) -> Iterator[str]:
    if pod["serviceAccountName"] not in accounts:
        yield f"no ServiceAccount {pod['serviceAccountName']}"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
    yield from (f"volume {name} is mounted nowhere" for name in sorted(volumes.keys() - mounted))
    yield from (f"no volume {name}" for name in sorted(mounted - volumes.keys()))
    for volume in volumes.values():
        config = volume.get("configMap", {}).get("name")
        if config and config not in configs:
            yield f"no ConfigMap {config}"
