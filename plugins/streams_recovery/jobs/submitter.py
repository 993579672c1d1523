"""Who runs a Spark job: what it is given, and what it owes whoever asked for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from streams_recovery.core.audit import AuditResult
from streams_recovery.core.jobs import BackupResult, RestoreResult, VerifyResult
from streams_recovery.core.reduction import ReduceResult
from streams_recovery.core.state_export import StateResult
from streams_recovery.jobs.package import build_package
from streams_recovery.jobs.secrets import secrets_file
from streams_recovery.jobs.submit import JobName, SparkCall, spark_call
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.repository import Repository

RESULTS: Final[Mapping[JobName, type]] = MappingProxyType(
    {
        "backup": BackupResult,
        "restore": RestoreResult,
        "verify": VerifyResult,
        "audit": AuditResult,
        "compact": ReduceResult,
        "state": StateResult,
    }
)
"""What each job leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob:
    """One job: its specification and its result are keys of ``repository``. Connection and credentials are secrets."""

    name: JobName
    spec_key: str
    result_key: str
    repository: Repository
    connection: KafkaConnection
    credentials: StorageCredentials | None


class Submitter(Protocol):
    """Runs jobs. The product's are spark-submit, from the command line and from Airflow."""

    def submit(self, job: SparkJob) -> None:
        """Return when ``job`` has left its result.

        Raises the error that the job noted instead, and ``SparkJobFailed`` when it left nothing.
        """


@contextmanager
def prepared(job: SparkJob, master: str, *, allow_insecure_rpc: bool) -> Iterator[SparkCall]:
    """The call of spark-submit for ``job``. Its package and its secrets file are there for as long as the block lasts. Raises what ``spark_call`` does."""
    with tempfile.TemporaryDirectory(prefix="streams-recovery-") as work, secrets_file(job.connection, job.credentials) as secrets:
        yield spark_call(
            job.name,
            spec_key=job.spec_key,
            result_key=job.result_key,
            location=job.repository.location,
            package=build_package(Path(work)),
            secrets_file=secrets,
            master=master,
            allow_insecure_rpc=allow_insecure_rpc,
        )
