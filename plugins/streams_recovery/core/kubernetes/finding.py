"""Which workload of a cluster seems to run an application: by the environment of its containers, else by its labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from streams_recovery.core.draft.seen import FoundWorkload

_LABELS: Final = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "app")
_STATE: Final = ("STATE_DIR", "STATE_DIRECTORY", "DATADIR")


def workloads_of(application_id: str, found: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[FoundWorkload, ...]:
    """The workloads that have the id in an environment or an argument; where none has it, those that are labelled with it. ``found`` are objects as the API has
    them, each with its kind. Only a whole value counts: `orders-eu` does not run `orders`.
    """
    objects = list(found)
    by_container = tuple(one for kind, item in objects for one in _by_container(application_id, kind, item))
    return by_container or tuple(one for kind, item in objects for one in _by_label(application_id, kind, item))


def _by_container(application_id: str, kind: str, item: Mapping[str, Any]) -> Iterator[FoundWorkload]:
    for container in _containers(item):
        names = sorted(name for name, value in _environment(container).items() if value == application_id)
        arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
        if names or application_id in arguments:
            where = f"its environment has {names[0]}={application_id}" if names else f"{application_id} is one of its arguments"
            yield _found(kind, item, container, where)


def _by_label(application_id: str, kind: str, item: Mapping[str, Any]) -> Iterator[FoundWorkload]:
    labels = {**(item["spec"]["template"].get("metadata", {}).get("labels") or {}), **(item["metadata"].get("labels") or {})}
    label = next((one for one in _LABELS if labels.get(one) == application_id), None)
    containers = _containers(item)
    if label is not None and containers:
        yield _found(kind, item, containers[0] if len(containers) == 1 else {}, f"its label {label} is {application_id}", by_label=True)


def _found(kind: str, item: Mapping[str, Any], container: Mapping[str, Any], because: str, *, by_label: bool = False) -> FoundWorkload:
    ports = {one.get("containerPort") for one in container.get("ports") or ()}
    state = next((value for name, value in sorted(_environment(container).items()) if name.endswith(_STATE) and _is_deep(value)), None)
    return FoundWorkload(
        namespace=item["metadata"]["namespace"],
        workload=f"{kind}/{item['metadata']['name']}",
        container=container.get("name") if len(_containers(item)) > 1 else None,
        port=ports.pop() if len(ports) == 1 else None,
        state_directory=state,
        because=because,
        by_label=by_label,
    )


def _is_deep(path: str) -> bool:
    """True for a path that a configuration takes as a state directory: absolute, and below a folder of its own."""
    return path.startswith("/") and ".." not in (parts := PurePosixPath(path).parts) and len(parts) > len("/a")


def _containers(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(item["spec"]["template"]["spec"].get("containers") or ())


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value") or "" for one in container.get("env") or ()}
