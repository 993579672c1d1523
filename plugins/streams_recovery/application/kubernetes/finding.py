"""The workloads of a Kubernetes cluster that seem to run an application. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from streams_recovery.application.kubernetes.cluster import Client
from streams_recovery.core.draft.seen import FoundWorkload
from streams_recovery.core.kubernetes.finding import workloads_of

# Nobody waits for a cluster that is only asked because its file is there.
_PATIENCE: Final = 2.0
_KINDS: Final = (("deployment", "deployment"), ("statefulset", "stateful_set"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The way to a cluster: see ``runs.kubernetes``."""

    kubeconfig: str | None
    context: str | None = None


def reachable(environment: Mapping[str, str]) -> Reached | None:
    """The cluster that this runs in, or that the user's file names; None without either."""
    if "KUBERNETES_SERVICE_HOST" in environment:
        return Reached(kubeconfig=None)
    file = Path(environment.get("KUBECONFIG", "").split(os.pathsep)[0] or "~/.kube/config").expanduser()
    return Reached(kubeconfig=str(file), context=_current_context(file)) if file.is_file() else None


def _current_context(file: Path) -> str | None:
    """The context that the file's user works in. It is another one as soon as that user switches."""
    try:
        found = yaml.safe_load(file.read_bytes())
    except (OSError, yaml.YAMLError):
        return None
    current = found.get("current-context") if isinstance(found, Mapping) else None
    return current if isinstance(current, str) and current else None


def find(reached: Reached, application_id: str, namespace: str | None = None) -> tuple[FoundWorkload, ...]:
    """The workloads in a namespace, or in all of them. Raises as ``Client`` does: ``ConfigInvalid`` names a right that is missing."""
    return workloads_of(application_id, _listed(Client(reached), namespace))


def _listed(client: Client, namespace: str | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    apps = client.api("AppsV1Api")
    for kind, word in _KINDS:
        if namespace is None:
            found = client.call(f"list {kind}s", getattr(apps, f"list_{word}_for_all_namespaces"), patience=_PATIENCE)
        else:
            found = client.call(f"list {kind}s in {namespace}", getattr(apps, f"list_namespaced_{word}"), namespace, patience=_PATIENCE)
        yield from ((kind, one) for one in found["items"])
