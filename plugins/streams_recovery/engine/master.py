"""What the URL of a Spark master says about where tasks run, and on how many cores."""

from __future__ import annotations

import os
import re
from typing import Final

from streams_recovery.core.errors import ConfigInvalid

_LOCAL: Final = re.compile(r"local(?:\[(?P<cores>\d+|\*)(?:,\d+)?\])?")
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(?P<executors>\d+)\s*,\s*(?P<cores>\d+)\s*,\s*\d+\s*\]")
# Enough for a small cluster; what a cluster has is not known to the one who submits.
_SHUFFLE_PARTITIONS: Final = 32
# Two, so that no core waits for the longest piece.
_SHUFFLE_PARTITIONS_A_CORE: Final = 2


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
    """On how many cores of this machine the tasks of ``master`` run, None when they run elsewhere."""
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster["executors"]) * int(cluster["cores"])
    if (found := _LOCAL.fullmatch(master)) is None:
        return None
    cores = found["cores"] or "1"
    return os.cpu_count() or 1 if cores == "*" else int(cores)


def shuffle_partitions(master: str) -> int:
    """In how many pieces a shuffle is cut. A piece is a file and a task, so many of them are most of the time of a small job."""
    cores = local_cores(master)
    return _SHUFFLE_PARTITIONS if cores is None else _SHUFFLE_PARTITIONS_A_CORE * max(1, cores)
