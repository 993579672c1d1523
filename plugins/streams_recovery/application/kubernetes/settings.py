"""How an application runs in Kubernetes, as plain values: what the factory makes of the ``runs.kubernetes`` section."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from streams_recovery.application.settings import ControlPaths
from streams_recovery.core.kubernetes.workload import WorkloadName


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """One workload. ``record`` is the ConfigMap with what a stop writes down, ``replicas`` how many instances there are when nothing is written down and the
    workload is at zero. Without a ``kubeconfig`` the service account of the pod that this runs in is used. ``start_timeout`` (seconds) bounds the wait for
    autoscalers, for a wipe and for an answer to a query.
    """

    application_id: str
    namespace: str
    workload: WorkloadName
    container: str | None
    replicas: int | None
    record: str
    state_directory: str
    claims: Literal["delete", "job"] | None
    wipe_image: str | None
    port: int
    control: ControlPaths
    kubeconfig: str | None
    context: str | None
    argocd_namespace: str
    start_timeout: float
