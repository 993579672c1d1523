"""Whether pods are as harmless as they can be, and whether a secret stands where everybody can read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tests.support.deploy.documents import Document, containers, pod_spec, title

_SECRET = re.compile(r"(password|secret|token|access_key)$", re.IGNORECASE)
# What a connection of Spark says that is no secret.
_OPEN = {"conn_type", "host", "port"}


def safety_problems(documents: Iterable[Document]) -> list[str]:
    """Pods that could do more than they need to."""
    every = list(documents)
    found = []
    for document in every:
        pod = pod_spec(document)
        if pod is not None:
            security = pod.get("securityContext", {})
            found += [f"{title(document)}: may run as root"] * (security.get("runAsNonRoot") is not True or not security.get("runAsUser"))
            found += [f"{title(document)}: no seccomp profile"] * (security.get("seccompProfile") != {"type": "RuntimeDefault"})
            found += [f"{title(document)}: no word on the API server's token"] * ("automountServiceAccountToken" not in pod)
    for document, container in containers(every):
        found += [f"{title(document)}: {problem}" for problem in _container_problems(container)]
    return found


def _container_problems(container: Document) -> Iterator[str]:
    security = container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is not False:
        yield "may gain privileges"
    if security.get("capabilities") != {"drop": ["ALL"]}:
        yield "has capabilities"
    if security.get("readOnlyRootFilesystem") is not True:
        yield "its root file system can be written"
    if security.get("runAsUser") == 0 or security.get("privileged"):
        yield "runs as root"
    if not re.search(r"(:\S*\d\S*|@sha256:[0-9a-f]{64})$", container["image"]):
        yield f"{container['image']} has no version"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield "has no limit of memory"


def secret_problems(documents: Iterable[Document]) -> list[str]:
    """Secrets in clear: in a ConfigMap, in a variable, in an argument."""
    every = list(documents)
    found = [f"{title(one)} is in clear" for one in every if one["kind"] == "Secret"]
    for document in every:
        if document["kind"] == "ConfigMap":
            for file, text in document.get("data", {}).items():
                found += [f"{title(document)}: {file} has {key}" for key in _keys(file, text) if _SECRET.search(key)]
    for document, container in containers(every):
        found += [f"{title(document)}: {problem}" for problem in _exposed(container)]
    return found


def _exposed(container: Document) -> Iterator[str]:
    for variable in container.get("env", ()):
        value = variable.get("value", "")
        connection = variable["name"].startswith("AIRFLOW_CONN_") and value
        if connection and not (isinstance(said := json.loads(value), dict) and said.keys() <= _OPEN and "@" not in str(said["host"])):
            yield f"{variable['name']} is in clear"
        if value and _SECRET.search(variable["name"]):
            yield f"{variable['name']} is in clear"
    for word in (*container.get("command", ()), *container.get("args", ())):
        if re.search(r"(password|secret|token)", word, re.IGNORECASE):
            yield f"argument {word}"


def _keys(file: str, text: str) -> Iterator[str]:
    if file.endswith(".conf"):
        yield from (line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#"))
    else:
        yield from _nested(yaml.safe_load(text))


def _nested(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (str(key) for key, one in value.items() if isinstance(one, str))
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _nested(one)
