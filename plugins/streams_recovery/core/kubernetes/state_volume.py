"""Where an application's local state lies, and what outlives its pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kubernetes.workload import Workload

# "pod": gone with the pod. "templates": a claim for each pod, made by the StatefulSet. "claim": one claim that all pods share.
Lasting = Literal["pod", "templates", "claim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateVolume:
    """The volume with the state. ``name`` is that of the claim or of the claim template, ``mount`` how the container mounts it."""

    lasting: Lasting
    name: str
    mount: Mapping[str, Any]


def state_volume(workload: Workload, container: str, state_directory: str) -> StateVolume:
    """The volume in which ``state_directory`` lies. Raises ``ConfigInvalid`` for one that can neither be proven gone nor be wiped from here."""
    spec = workload.template["spec"]
    mount = _mount_of(_container(spec, container).get("volumeMounts") or (), PurePosixPath(state_directory))
    if mount is None:
        # The container's own layer, which is gone with the container.
        return StateVolume(lasting="pod", name="", mount={})
    if mount["name"] in workload.claim_templates:
        return _on_claim("templates", mount["name"], mount, workload)
    volume = next(one for one in spec.get("volumes") or () if one["name"] == mount["name"])
    if "emptyDir" in volume:
        return StateVolume(lasting="pod", name=mount["name"], mount=mount)
    if "persistentVolumeClaim" in volume:
        return _on_claim("claim", volume["persistentVolumeClaim"]["claimName"], mount, workload)
    kind = ", ".join(sorted(set(volume) - {"name"}))
    raise ConfigInvalid(
        f"the state of {workload.name} in {state_directory} lies on a volume of the kind {kind}, which cannot be wiped from here",
        next_step="keep state in an emptyDir or on a PersistentVolumeClaim",
        volume=volume["name"],
        kind=kind,
    )


def _on_claim(lasting: Lasting, name: str, mount: Mapping[str, Any], workload: Workload) -> StateVolume:
    if "subPathExpr" in mount:
        # Only the kubelet knows what it is for each pod: elsewhere on the claim nothing would be found, and nothing removed.
        raise ConfigInvalid(
            f"the state of {workload.name} lies below subPathExpr {mount['subPathExpr']} of volume {mount['name']}, where it cannot be wiped from here",
            next_step="use subPath, or a claim for each pod without either",
            volume=mount["name"],
        )
    return StateVolume(lasting=lasting, name=name, mount=mount)


def claims_of(volume: StateVolume, workload: Workload, existing: Iterable[str]) -> tuple[str, ...]:
    """The claims with state. Those of replicas that were scaled away before are among them: their state would be taken up again one day."""
    if volume.lasting == "pod":
        return ()
    if volume.lasting == "claim":
        return tuple(name for name in existing if name == volume.name)
    pattern = re.compile(rf"{re.escape(volume.name)}-{re.escape(workload.name.name)}-(\d+)")
    numbered = [(int(found[1]), name) for name in existing if (found := pattern.fullmatch(name))]
    return tuple(name for _, name in sorted(numbered))


def _container(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in spec["containers"] if one["name"] == name)
    return found


def _mount_of(mounts: Iterable[Mapping[str, Any]], directory: PurePosixPath) -> Mapping[str, Any] | None:
    around = [one for one in mounts if directory.is_relative_to(one["mountPath"])]
    return max(around, key=lambda one: len(PurePosixPath(one["mountPath"]).parts), default=None)
