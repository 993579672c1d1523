"""A control plane with its kubelet, for as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kubernetes.control_plane import ControlPlane
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.pod_rig import Cluster


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """Every process of it is gone at the end, those of pods too."""
    plane = ControlPlane(directory)
    try:
        kubelet = Kubelet(plane.api, directory / "kubelet")
        try:
            yield Cluster(plane, kubelet)
        finally:
            kubelet.close()
    finally:
        plane.close()
