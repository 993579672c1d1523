"""Volumes of pods as directories: an emptyDir for each pod, and what a provisioner does for claims."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.support.kubernetes.api import Api

CLASS = "directories"


class Volumes:
    """All volumes below one directory."""

    def __init__(self, api: Api, directory: Path) -> None:
        self._api, self._directory = api, directory

    def look(self) -> None:
        """Make a volume for each claim that waits for one, and remove those whose claim is gone."""
        volumes = {one["metadata"]["name"]: one for one in self._api.items("/api/v1/persistentvolumes")}
        for claim in self._api.items("/api/v1/persistentvolumeclaims"):
            name = f"pv-{claim['metadata']['uid']}"
            if not claim["spec"].get("volumeName") and name not in volumes:
                self._api.post("/api/v1/persistentvolumes", self._volume(name, claim))
        for name, volume in volumes.items():
            if (volume.get("status") or {}).get("phase") == "Released" and "deletionTimestamp" not in volume["metadata"]:
                shutil.rmtree(volume["spec"]["hostPath"]["path"], ignore_errors=True)
                self._api.delete(f"/api/v1/persistentvolumes/{name}")

    def of(self, pod: Any) -> dict[str, Path] | None:
        """A directory for each volume of a pod; None as long as a claim has none."""
        found: dict[str, Path] = {}
        for volume in pod["spec"].get("volumes") or ():
            if "emptyDir" in volume:
                found[volume["name"]] = self._directory / pod["metadata"]["uid"] / volume["name"]
            elif "persistentVolumeClaim" in volume:
                place = self._claimed(pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"])
                if place is None:
                    return None
                found[volume["name"]] = place
        for place in found.values():
            place.mkdir(parents=True, exist_ok=True)
        return found

    def drop(self, uid: str) -> None:
        """Remove what a pod had for itself."""
        shutil.rmtree(self._directory / uid, ignore_errors=True)

    def _claimed(self, namespace: str, name: str) -> Path | None:
        claim = self._api.find(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
        if claim is None or (claim.get("status") or {}).get("phase") != "Bound":
            return None
        volume = self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        return Path(volume["spec"]["hostPath"]["path"])

    def _volume(self, name: str, claim: Any) -> Any:
        metadata, spec = claim["metadata"], claim["spec"]
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "storageClassName": spec.get("storageClassName", ""),
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
                "hostPath": {"path": str(self._directory / name)},
            },
        }
