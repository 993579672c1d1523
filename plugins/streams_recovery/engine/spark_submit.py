"""A call of spark-submit, in pieces: the Airflow operator and the command line put the same ones together.

A driver's environment has what programs need on this machine, and not the connections, keys and passwords of who submits it. Its secrets are in a file
that only its owner can read, removed when the job has ended. A job ends with its result in the repository, or with an error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged, NoRoom, SparkJobFailed, tells_of_no_room
from streams_recovery.core.jobs.spec import JobOrder, JobReceipt
from streams_recovery.core.project_files import project_files
from streams_recovery.core.repository.encryption import KeyAccess
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.seal import SealKeys
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.master import is_local, kubernetes_settings, rpc_settings, shuffle_partitions, spark_defaults
from streams_recovery.engine.spark_home import find_spark_home
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.json_object import read_noted
from streams_recovery.storage.repository import Repository

_NAMES: Final = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP", "LD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("KUBECONFIG", "KRB5CCNAME", "KRB5_CONFIG", "STREAMS_RECOVERY_NATIVE"),
        # Who tells a program its identity in Azure's hosted services and at Google: without these another one is asked, or nobody.
        *("IDENTITY_ENDPOINT", "IDENTITY_HEADER", "GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS",
    }
)
# AWS_, AZURE_, GOOGLE_: a repository without a connection is opened with the credentials of the machine.
_PREFIXES: Final = (
    "LC_",
    "JAVA_",
    "JDK_",
    "SPARK_",
    "PYSPARK_",
    "PYTHON",
    "HADOOP_",
    "YARN_",
    "KUBERNETES_SERVICE_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
)

JobName = Literal["backup", "restore", "verify", "check", "compact", "rescale", "state", "compare_outputs", "archive"]

SECRETS_FILE: Final = "STREAMS_RECOVERY_SECRETS_FILE"
SUBMITTER: Final = "STREAMS_RECOVERY_SUBMITTER"
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_DIR: Final = "spark.local.dir"
# The user's choice, where the user has not chosen: a web page costs a job seconds. Spark's event log is off by its own default.
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# A worker's memory goes back to the system when it is free: librdkafka's threads would each keep an arena of their own, and Arrow its pool. NumPy, which Arrow
# brings along, would start a thread for each core and let it spin.
_WORKERS: Final = {
    "MALLOC_ARENA_MAX": "2",
    # Both: glibc adjusts neither any more once one of them is set, and from 128 KB on it would map each buffer of a fetch anew and unmap it again, which costs
    # records of 1 KB 3 of 7 microseconds.
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "67108864",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """Files of the submitter's machine: the code, what is needed to connect, and where the driver leaves its receipt. The receipt is in a directory that no
    other user may enter, and that is removed: Spark of a local master keeps there what does not fit into memory.
    """

    package: Path
    secrets: Path
    receipt: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCall:
    """A call of spark-submit. ``environment`` is all that the process is given, and names the secrets file; nothing of the call itself is a secret. The driver
    leaves its ``receipt`` on this machine.
    """

    name: str
    application: Path
    arguments: tuple[str, ...]
    py_files: Path
    conf: dict[str, str]
    environment: dict[str, str]
    receipt: Path


def spark_call(
    job: JobName,
    *,
    order: JobOrder | Path,
    location: StorageLocation,
    files: JobFiles,
    master: str,
    allow_insecure_rpc: bool = False,
) -> SparkCall:
    """The call for one job, with its ``order`` or with the file in which the driver will find that. Workers of a local master run this interpreter, those of
    a cluster ``python3``.

    Raises ``ConfigInvalid`` for a cluster that is neither authenticated nor encrypted, unless ``allow_insecure_rpc``, and for one of Kubernetes without
    an image.
    """
    defaults = spark_defaults()
    application = project_files().jobs / f"{job}.py"
    return SparkCall(
        name=f"streams-recovery-{job}",
        application=application,
        arguments=job_arguments(order, location, files.receipt),
        py_files=files.package,
        conf={name: value for name, value in _QUIET.items() if name not in defaults}
        | _conf(job, master)
        | _local_settings(master, defaults, files.receipt.parent)
        | kubernetes_settings(master, defaults)
        | rpc_settings(master, defaults, allow_insecure=allow_insecure_rpc),
        environment=_environment(files.secrets, local=is_local(master)),
        receipt=files.receipt,
    )


def job_arguments(order: JobOrder | Path, location: StorageLocation, receipt: Path) -> tuple[str, ...]:
    """The arguments of a job's program."""
    about = {"--repository": codec.dumps(location).decode(), "--receipt": str(receipt)}
    if isinstance(order, Path):
        about["--order"] = str(order)
    else:
        about |= {"--spec": codec.dumps(order.spec).decode(), "--result": order.result_key}
    return tuple(part for option in about.items() for part in option)


def submit_argv(call: SparkCall, master: str, *, extra: Mapping[str, str] | None = None) -> list[str]:
    """The command line for ``call``. ``extra`` is configuration laid over the call's, for what a cluster needs; it cannot replace the call's."""
    conf = {**(extra or {}), **call.conf}
    settings = [part for key in sorted(conf) for part in ("--conf", f"{key}={conf[key]}")]
    # Deploy mode client: the driver reads the secrets, and leaves its receipt, in files of this machine.
    where = ["--master", master, "--deploy-mode", "client", "--name", call.name, "--py-files", str(call.py_files)]
    return [str(find_spark_home() / "bin" / "spark-submit"), *where, *settings, str(call.application), *call.arguments]


def _conf(job: JobName, master: str) -> dict[str, str]:
    conf = {
        "spark.speculation": "false",  # two tasks would write one partition
        "spark.sql.shuffle.partitions": str(shuffle_partitions(master)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    conf |= {f"spark.executorEnv.{name}": value for name, value in _WORKERS.items()}
    if job == "restore":
        # A second attempt of a task would write behind the first one's rows: the orchestrator creates the topics again instead.
        conf["spark.task.maxFailures"] = "1"
    return conf


def _local_settings(master: str, defaults: Mapping[str, str], directory: Path) -> dict[str, str]:
    if not is_local(master):
        return {}
    # Spark's own choice is a directory that every user may read, where records stay when it is killed. This one goes with the job's other files.
    kept = {} if _LOCAL_DIR in defaults else {_LOCAL_DIR: str(directory)}
    # A local master neither authenticates nor encrypts, so it must not be reachable from another machine.
    return {**kept, "spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}


def _environment(secrets_file: Path, *, local: bool) -> dict[str, str]:
    environment = {
        **job_environment(secrets_file),
        "SPARK_HOME": str(find_spark_home()),
        # Without it the workers of a local master take any python3, which need not have our packages.
        "PYSPARK_PYTHON": sys.executable if local else "python3",
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return environment | ({"SPARK_LOCAL_IP": _LOOPBACK} if local else {})


def job_environment(secrets_file: Path) -> dict[str, str]:
    """The variables that a job's program is given, with Spark or without."""
    return {**driver_environment(), SECRETS_FILE: str(secrets_file), SUBMITTER: str(os.getpid()), **_WORKERS}


def driver_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of ``environment`` that a driver is given. Proxies by their names in lower case too."""
    return {name: value for name, value in environment.items() if name.upper() in _NAMES or name.startswith(_PREFIXES)}


@contextmanager
def secrets_file(
    connection: KafkaConnection | None,
    credentials: StorageCredentials | None,
    seal: SealKeys | None = None,
    encryption: KeyAccess | None = None,
    *,
    directory: Path | None = None,
) -> Iterator[Path]:
    """A new file (mode 0600) with what a job needs to connect; gone at the end of the block. ``directory`` defaults to the system's.

    The driver reads it on this machine, so the deploy mode must be client, and removes it then. A submitter that is killed before that leaves it
    behind, readable by its owner only, until the next ``scratch`` directory is made.
    """
    kafka = None if connection is None else {"bootstrap_servers": connection.bootstrap_servers, "properties": dict(connection.properties)}
    content = {
        "kafka": kafka,
        "storage": None if credentials is None else {"options": dict(credentials.options)},
        "seal": None if seal is None else dataclasses.asdict(seal),
        "encryption": None if encryption is None else [dataclasses.asdict(one) for one in encryption.places],
    }
    handle, name = tempfile.mkstemp(prefix="streams-recovery-", suffix=".secrets", dir=directory)  # mkstemp makes it 0600
    path = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(content, file)
        yield path
    finally:
        path.unlink(missing_ok=True)


def read_outcome(repository: Repository, receipt: JobReceipt | None, result_key: str, kind: type, *, log_tail: str = "") -> ArtifactRef:
    """The result that the job has stored at ``result_key``, by its ``receipt``. Raises the error that the job tells of instead, and ``SparkJobFailed``
    with ``log_tail`` when it told nothing.

    A result that cannot be read as a ``kind`` is ``Damaged``, one that the job did not store ``Altered``. How the process exited does not count.
    """
    if receipt is not None and receipt.failure is not None:
        raise receipt.failure.as_error()
    if receipt is None or receipt.result is None:
        # Where nothing can be written there is no receipt either.
        kind, step = (NoRoom, "make room there, then run again") if tells_of_no_room(log_tail) else (SparkJobFailed, "run the step again")
        raise kind(
            f"the job ended without its result {result_key}{': ' + log_tail if log_tail else ''}",
            next_step=f"read the job's log, then {step}",
            result_key=result_key,
            log_tail=log_tail,
        )
    if receipt.result.key != result_key:
        raise Damaged(
            f"the job has stored {receipt.result.key}, and {result_key} was asked for", next_step="run the step again", key=result_key
        )
    # Only for its errors: an unusable result fails this step, not the step that needs it.
    read_noted(repository, kind, receipt.result)
    return receipt.result
