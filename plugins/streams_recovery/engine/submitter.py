"""Who runs a Spark job: what it is given, and what it owes whoever asked for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from streams_recovery.core.archive.tick import ArchiveResult
from streams_recovery.core.compaction.merge import MergeResult
from streams_recovery.core.compaction.plan import CompactResult
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.jobs.spec import BackupResult, JobOrder, RestoreResult, VerifyResult
from streams_recovery.core.outputs.comparison import OutputsResult
from streams_recovery.core.repository.check import CheckResult
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.state.export_job import StateResult
from streams_recovery.engine.package import build_package
from streams_recovery.engine.secrets import secrets_file
from streams_recovery.engine.spark_submit import JobFiles, JobName, SparkCall, spark_call
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import Repository

RESULTS: Final[Mapping[JobName, type]] = MappingProxyType(
    {
        "backup": BackupResult,
        "restore": RestoreResult,
        "verify": VerifyResult,
        "check": CheckResult,
        "compact": CompactResult,
        "merge": MergeResult,
        "state": StateResult,
        "compare_outputs": OutputsResult,
        "archive": ArchiveResult,
    }
)
"""What each job leaves."""

_OF_THE_REPOSITORY: Final[frozenset[JobName]] = frozenset({"check", "compact", "merge", "state"})


def needs_cluster(name: JobName) -> bool:
    """False for jobs that read and write files of the repository only."""
    return name not in _OF_THE_REPOSITORY


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStart:
    """What Spark has to be given to start for a job. Connection and credentials are secrets; a job that has nothing to do with the cluster gets no
    connection.
    """

    name: JobName
    repository: Repository
    connection: KafkaConnection | None
    credentials: StorageCredentials | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob(SparkStart):
    """One job: its specification is in ``repository``, and its result will be. ``report`` is called with how far it is, from another thread."""

    spec: ArtifactRef
    result_key: str
    report: Callable[[JobProgress], object] | None = field(default=None, compare=False)


class Submitter(Protocol):
    """Runs jobs. The product's are spark-submit, from the command line and from Airflow."""

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Return the result of ``job`` when it has left it.

        Raises the error that the job tells of instead, and ``SparkJobFailed`` when it told nothing.
        """


@contextmanager
def prepared(start: SparkStart, master: str, *, allow_insecure_rpc: bool) -> Iterator[SparkCall]:
    """The call of spark-submit for a job, or for one that is still to come: that one is ordered by ``write_order`` beside the receipt, at ``order_path``. Its
    package, its secrets file and the place for its receipt are there for as long as the block lasts. Raises what ``spark_call`` does.
    """
    with tempfile.TemporaryDirectory(prefix="streams-recovery-") as work, _secrets(start) as secrets:
        receipt = Path(work) / "receipt.json"
        yield spark_call(
            start.name,
            order=JobOrder(spec=start.spec, result_key=start.result_key) if isinstance(start, SparkJob) else order_path(receipt),
            location=start.repository.location,
            files=JobFiles(package=build_package(Path(work)), secrets=secrets, receipt=receipt),
            master=master,
            allow_insecure_rpc=allow_insecure_rpc,
        )


def order_path(receipt: Path) -> Path:
    """Where a driver finds its order that was started before there was one."""
    return receipt.with_name("order.json")


def _secrets(start: SparkStart) -> AbstractContextManager[Path]:
    seals = start.repository.seals
    return secrets_file(start.connection, start.credentials, None if seals is None else seals.keys)
