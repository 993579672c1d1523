"""Spark masters: where their tasks run, and the settings with which a job is submitted to one.

Tasks travel in closures, which carry the passwords of Kafka and of the object store, and any peer of the cluster can run code. By default Spark neither
authenticates nor encrypts. On a cluster a job is submitted with both, or not at all.

A driver tells a Kubernetes cluster about itself, so that executor pods find it and end with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.spark_home import find_spark_home

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(?P<executors>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*\d+\s*\]")
# Enough for a small cluster; what a cluster has is not known to the one who submits.
_SHUFFLE_PARTITIONS: Final = 32
# Two, so that no core waits for the longest piece.
_SHUFFLE_PARTITIONS_A_CORE: Final = 2

AUTHENTICATE: Final = "spark.authenticate"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a setting
ENCRYPT: Final = "spark.network.crypto.enabled"
_TLS: Final = "spark.ssl.rpc.enabled"
_ENCRYPTED: Final = {
    ENCRYPT: "true",
    # Without this a driver whose counterpart does not encrypt goes on in clear.
    "spark.network.crypto.saslFallback": "false",
}
_SETTING: Final = re.compile(r"([^\s=:]+)(?:\s*[=:]\s*|\s+)(.*)")
_KUBERNETES: Final = "k8s://"
_GENERATES_SECRETS: Final = ("yarn", _KUBERNETES)

POD_NAME: Final = "STREAMS_RECOVERY_POD_NAME"
POD_NAMESPACE: Final = "STREAMS_RECOVERY_POD_NAMESPACE"
POD_IP: Final = "STREAMS_RECOVERY_POD_IP"
_IMAGE: Final = "spark.kubernetes.container.image"
_EXECUTOR_IMAGE: Final = "spark.kubernetes.executor.container.image"


def master_of(connection_id: str, conn_type: str | None, host: str | None, port: int | str | None) -> str:
    """The master that a connection of Airflow names, as Airflow's own hook understands it (SparkSubmitHook#_resolve_connection). Raises
    ``ConfigInvalid`` for one without a host: the hook would take it for YARN.
    """
    if not host:
        raise ConfigInvalid(f"connection {connection_id} has no host", next_step='set it to a Spark master, such as "local[2]"')
    whole = (conn_type or "spark") == "spark" and ("://" in host or not port)
    url = host if whole else f"{conn_type or 'spark'}://{host}"
    return f"{url}:{port}" if port else url


def is_local(master: str) -> bool:
    """True when tasks run on this machine."""
    return local_cores(master) is not None


def local_cores(master: str) -> int | None:
    """The number of cores of this machine that the tasks of ``master`` run on, None when they run elsewhere."""
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster["executors"]) * int(cluster["cores"])
    if (found := _LOCAL.fullmatch(master)) is None:
        return None
    cores = found["cores"] or "1"
    return os.cpu_count() or 1 if cores == "*" else int(cores)


def shuffle_partitions(master: str) -> int:
    """The number of pieces that a shuffle is cut into. A piece is a file and a task, so many of them are most of the time of a small job."""
    cores = local_cores(master)
    return _SHUFFLE_PARTITIONS if cores is None else _SHUFFLE_PARTITIONS_A_CORE * max(1, cores)


def rpc_settings(master: str, defaults: Mapping[str, str], *, allow_insecure: bool) -> dict[str, str]:
    """Settings for a submission, over the ``defaults`` of the submitting machine, so that no other process can listen. Empty for a local master, and if the
    configuration allows an insecure network.

    Raises ``ConfigInvalid`` when the defaults forbid it, and when the cluster needs a secret that they do not have.
    """
    if is_local(master) or allow_insecure:
        return {}
    tls = _is(defaults, _TLS, "true")
    for name in (AUTHENTICATE,) if tls else (AUTHENTICATE, ENCRYPT):
        if _is(defaults, name, "false"):
            raise _insecure(master, f"spark-defaults.conf turns {name} off")
    if not master.startswith(_GENERATES_SECRETS) and not defaults.get(SECRET):
        raise _insecure(master, f"spark-defaults.conf has no {SECRET}")
    # What is spilled to the workers' disks is encrypted too; its key travels by the same way.
    return {AUTHENTICATE: "true", "spark.io.encryption.enabled": "true", **({} if tls else _ENCRYPTED)}


def kubernetes_settings(master: str, defaults: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings for a submission to a ``k8s://`` master from a pod. It knows its name, namespace and address by the variables that ``POD_NAME``,
    ``POD_NAMESPACE`` and ``POD_IP`` name. A setting in the ``defaults`` of the submitting machine stays. None for other masters.

    Raises ``ConfigInvalid`` when the defaults name no image: Spark would ask for executors for ever and get none.
    """
    if not master.startswith(_KUBERNETES):
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


def spark_defaults(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings in ``spark-defaults.conf`` of ``SPARK_CONF_DIR``, else of Spark's home; empty without such a file. Raises ``ConfigInvalid``."""
    directory = Path(environment.get("SPARK_CONF_DIR") or find_spark_home(environment) / "conf")
    try:
        text = (directory / "spark-defaults.conf").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{directory / 'spark-defaults.conf'} cannot be read: {type(error).__name__}",
            next_step="let the user that submits Spark jobs read it",
        ) from None
    lines = (line.strip() for line in text.splitlines())
    found = (_SETTING.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {setting[1]: setting[2] for setting in found if setting}


def _is(defaults: Mapping[str, str], name: str, value: str) -> bool:
    return defaults.get(name, "").lower() == value


def _insecure(master: str, why: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"Spark's driver and the workers of {master} would talk unauthenticated or in clear, and what they say carries the passwords of Kafka and of the "
        f"object store: {why}",
        next_step=f"set {AUTHENTICATE}, {ENCRYPT} and {SECRET} on the driver, the master and all workers (docs/remote-spark.md), or say "
        "spark.allow_insecure_rpc: true in the application's configuration where the network is trusted",
        master=master,
    )


def _bracketed(address: str | None) -> str | None:
    # Spark takes what is behind the first colon for a port.
    return f"[{address}]" if address and ":" in address else address
