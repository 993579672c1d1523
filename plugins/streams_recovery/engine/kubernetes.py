"""What a driver tells a Kubernetes cluster about itself, so that executor pods find it and end with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from streams_recovery.core.errors import ConfigInvalid

POD_NAME: Final = "STREAMS_RECOVERY_POD_NAME"
POD_NAMESPACE: Final = "STREAMS_RECOVERY_POD_NAMESPACE"
POD_IP: Final = "STREAMS_RECOVERY_POD_IP"
_SCHEME: Final = "k8s://"
_IMAGE: Final = "spark.kubernetes.container.image"
_EXECUTOR_IMAGE: Final = "spark.kubernetes.executor.container.image"


def kubernetes_settings(master: str, defaults: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What is set at submission to a ``k8s://`` master from a pod that knows its name, namespace and address by the three variables above. A setting in
    the ``defaults`` of the submitting machine stays. Nothing for other masters.

    Raises ``ConfigInvalid`` when the defaults name no image: Spark would ask for executors for ever and get none.
    """
    if not master.startswith(_SCHEME):
        return {}
    if not defaults.get(_IMAGE) and not defaults.get(_EXECUTOR_IMAGE):
        raise ConfigInvalid(
            f"{master} starts executors in pods, and spark-defaults.conf names no image for them",
            next_step=f"set {_IMAGE} in spark-defaults.conf of SPARK_CONF_DIR (docs/remote-spark.md)",
            master=master,
        )
    found = {
        "spark.kubernetes.driver.pod.name": environment.get(POD_NAME),
        "spark.kubernetes.namespace": environment.get(POD_NAMESPACE),
        "spark.driver.host": _bracketed(environment.get(POD_IP)),
    }
    return {name: value for name, value in found.items() if value and name not in defaults}


def _bracketed(address: str | None) -> str | None:
    # Spark takes what is behind the first colon for a port.
    return f"[{address}]" if address and ":" in address else address
