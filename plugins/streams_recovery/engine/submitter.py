"""Submitters of jobs: what a submitter is given, and what it owes the caller.

The command line's runs spark-submit as a child process. While a job runs, the progress that its driver leaves on this machine is handed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from streams_recovery.core.archive.tick import ArchiveResult
from streams_recovery.core.compaction.values import CompactResult
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.jobs.spec import BackupResult, JobOrder, RestoreResult, VerifyResult
from streams_recovery.core.outputs.comparison import OutputsResult
from streams_recovery.core.repository.check import CheckResult
from streams_recovery.core.repository.encryption import KeyAccess
from streams_recovery.core.rescale.moved import RescaleResult
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.scratch import scratch
from streams_recovery.core.state.inspection import StateResult
from streams_recovery.engine.spark_home import build_package
from streams_recovery.engine.spark_submit import JobFiles, JobName, SparkCall, read_outcome, secrets_file, spark_call, submit_argv
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials
from streams_recovery.storage.objects import read_receipt, write_local
from streams_recovery.storage.progress_store import progress_path, read_progress
from streams_recovery.storage.repository import Repository

RESULTS: Final[Mapping[JobName, type]] = MappingProxyType(
    {
        "backup": BackupResult,
        "restore": RestoreResult,
        "verify": VerifyResult,
        "check": CheckResult,
        "compact": CompactResult,
        "rescale": RescaleResult,
        "state": StateResult,
        "compare_outputs": OutputsResult,
        "archive": ArchiveResult,
    }
)
"""The type of result that each job leaves."""

_OF_THE_REPOSITORY: Final[frozenset[JobName]] = frozenset({"check", "compact", "rescale", "state"})

_LOOK_SECONDS: Final = 1.0
_TAIL_BYTES: Final = 4000
_STOP_SECONDS: Final = 10.0
# Between two looks whether there is a receipt.
_CHILD_LOOK_SECONDS: Final = 0.05
# Far longer than Spark needs to stop after a job. One that hangs is ended.
_SPARK_STOPS_SECONDS: Final = 60.0


def needs_cluster(name: JobName) -> bool:
    """False for jobs that read and write files of the repository only."""
    return name not in _OF_THE_REPOSITORY


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStart:
    """The part of a job that Spark needs to start. Connection and credentials are secrets; a job that has nothing to do with the cluster gets no
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

    @property
    def order(self) -> JobOrder:
        """The order for the job's program."""
        return JobOrder(spec=self.spec, result_key=self.result_key)


class Submitter(Protocol):
    """Runs jobs. The product's are spark-submit, from the command line and from Airflow."""

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Return the result of ``job`` when it has left it.

        Raises the error that the job tells of instead, and ``SparkJobFailed`` when it told nothing.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSubmit:
    """Submits jobs from the command line. They go to ``master``; what they print is appended to a file in ``logs``."""

    master: str
    logs: Path
    allow_insecure_rpc: bool = False

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Run it in a process of its own."""
        log = self._log(job)
        with prepared(job, self.master, allow_insecure_rpc=self.allow_insecure_rpc) as call:
            argv = submit_argv(call, self.master)
            return outcome_of(job, call.receipt, log, lambda: run_submit(argv, call.environment, log=log, receipt=call.receipt))

    @contextmanager
    def ahead(self, start: SparkStart) -> Iterator[Submitter]:
        """Start Spark for a job that is still to come. Yields who gives that job to it, and submits any other. Spark that was given no job ends with the
        block.
        """
        log = self._log(start)
        with prepared(start, self.master, allow_insecure_rpc=self.allow_insecure_rpc) as call:
            process = started(submit_argv(call, self.master), call.environment, log=log)
            begun = _Begun(rest=self, name=start.name, process=process, receipt=call.receipt, log=log)
            try:
                yield begun
            finally:
                if not begun.used:
                    end(process)

    def _log(self, start: SparkStart) -> Path:
        return self.logs / f"{start.name}.log"


@dataclass(slots=True, kw_only=True)
class _Begun:
    """Submits jobs, and has one Spark that waits for a job of this name."""

    rest: Submitter
    name: JobName
    process: subprocess.Popen[bytes]
    receipt: Path
    log: Path
    used: bool = False

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Give the job to the Spark that waits. A second job is submitted anew, and so is a job for which Spark could not start. For a job of another name the
        waiting Spark is ended first: on a cluster it may hold all executors.
        """
        if self.used or job.name != self.name or self.process.poll() is not None:
            if not self.used:
                end(self.process)
            return self.rest.submit(job)
        write_local(order_path(self.receipt), job.order)
        self.used = True
        return outcome_of(job, self.receipt, self.log, lambda: see_through(self.process, self.receipt))


def outcome_of(job: SparkJob, receipt: Path, log: Path, run: Callable[[], None]) -> ArtifactRef:
    """The result of the job that ``run`` does to its end, with its progress handed on meanwhile. Raises what ``read_outcome`` does."""
    with followed(progress_path(receipt), job.report):
        run()
    return read_outcome(job.repository, read_receipt(receipt), job.result_key, RESULTS[job.name], log_tail=tail(log))


@contextmanager
def prepared(start: SparkStart, master: str, *, allow_insecure_rpc: bool) -> Iterator[SparkCall]:
    """The call of spark-submit for a job, or for one that is still to come: that one is ordered by ``write_local`` beside the receipt, at ``order_path``. Its
    package, its secrets file and the place for its receipt are there for as long as the block lasts. Raises what ``spark_call`` does.
    """
    with place_of(start) as (work, secrets):
        receipt = work / "receipt.json"
        yield spark_call(
            start.name,
            order=start.order if isinstance(start, SparkJob) else order_path(receipt),
            location=start.repository.location,
            files=JobFiles(package=build_package(work), secrets=secrets, receipt=receipt),
            master=master,
            allow_insecure_rpc=allow_insecure_rpc,
        )


@contextmanager
def place_of(start: SparkStart) -> Iterator[tuple[Path, Path]]:
    """A directory for a job's files on this machine, and its secrets file. Both are gone at the end of the block."""
    seals, keys = start.repository.seals, start.repository.encryption
    with (
        scratch() as work,
        secrets_file(
            start.connection,
            start.credentials,
            None if seals is None else seals.keys,
            keys if isinstance(keys, KeyAccess) else None,
            directory=work,
        ) as secrets,
    ):
        yield work, secrets


def order_path(receipt: Path) -> Path:
    """The file in which a driver that was started before there was an order finds it."""
    return receipt.with_name("order.json")


def run_submit(argv: Sequence[str], environment: Mapping[str, str], *, log: Path, receipt: Path | None = None) -> None:
    """``argv`` from its start to its end or its result: see ``started`` and ``see_through``."""
    see_through(started(argv, environment, log=log), receipt)


def started(argv: Sequence[str], environment: Mapping[str, str], *, log: Path) -> subprocess.Popen[bytes]:
    """``argv`` as a process with ``environment`` and nothing of this process's own, output appended to ``log``. Raises ``ConfigInvalid`` when spark-submit
    cannot be started.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            return subprocess.Popen(
                argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise ConfigInvalid(f"{argv[0]} cannot be started: {error}", next_step="install pyspark and Java 17 here") from error


def see_through(process: subprocess.Popen[bytes], receipt: Path | None) -> None:
    """Wait until a ``started`` process has ended or has told of a result in ``receipt``. How it exits does not count: only what it left does.

    After a result the process has only itself to stop, and this program does not end before it has. When this process is interrupted the job, its JVM and its
    tasks are ended first.
    """
    try:
        over = _ended_or_reported(process, receipt)
    except BaseException:
        end(process)
        raise
    if not over:
        # No daemon thread: the interpreter waits for it at its end.
        threading.Thread(target=_see_it_stop, args=(process,), name="spark-stop").start()


def _ended_or_reported(process: subprocess.Popen[bytes], receipt: Path | None) -> bool:
    """Wait. True when the process has ended, False when it has only told of a result."""
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(None if receipt is None else _CHILD_LOOK_SECONDS)
            return True
        if receipt is not None and _has_result(receipt):
            return False


def _has_result(receipt: Path) -> bool:
    # A failure is told before it is noted in the repository, and what Spark says about it comes later still.
    found = read_receipt(receipt)
    return found is not None and found.result is not None


def _see_it_stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SPARK_STOPS_SECONDS)
    end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a ``started`` process with all that it has started."""
    if process.poll() is not None:
        return
    # It leads a session of its own, so this reaches the JVM and no other process. Python workers end when their JVM does.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tail(log: Path) -> str:
    """The last lines of a log."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").strip()


@contextmanager
def followed(path: Path, report: Callable[[JobProgress], object] | None, *, every: float = _LOOK_SECONDS) -> Iterator[None]:
    """Hand each new progress at ``path`` to ``report``, from a thread of its own, for as long as the block lasts."""
    if report is None:
        yield
        return
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(path, report, over, every), name="job-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()


def _follow(path: Path, report: Callable[[JobProgress], object], over: threading.Event, every: float) -> None:
    last: JobProgress | None = None
    while not over.wait(every):
        found = read_progress(path)
        if found is not None and found != last:
            report(found)
            last = found
