"""PersistentVolumeClaims with local state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streams_recovery.application.kubernetes.cluster import Cluster
from streams_recovery.core.errors import NotFound
from streams_recovery.core.waiting import poll

_LOOK_SECONDS: Final = 0.5


class Claims:
    """The claims of one namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._call, self._namespace, self._core = cluster.client.call, cluster.section.namespace, cluster.client.api("CoreV1Api")

    def names(self) -> tuple[str, ...]:
        """Every claim there is, those that are being deleted included."""
        found = self._call("list persistentvolumeclaims", self._core.list_namespaced_persistent_volume_claim, self._namespace)
        return tuple(one["metadata"]["name"] for one in found["items"])

    def deleted(self, claims: Sequence[str], *, seconds: float) -> tuple[str, ...]:
        """Delete them, and return those that are still there when the time is up, each with what holds it."""
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
