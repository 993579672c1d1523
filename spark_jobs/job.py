"""The frame of every job: specification in, result out, an error beside it when there is none. The submitter is told which of the two it is."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from spark_jobs.access import SECRETS_FILE, JobAccess
from spark_jobs.fencing import fenced
from spark_jobs.submitter import end_with_submitter
from spark_jobs.transforms.one_process import OneProcess, Tasks
from spark_jobs.transforms.progress import Board, Printed, reporting
from spark_jobs.transforms.task_runner import TaskFailed, cause_of, sql_session, warm_up
from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import Altered, RecoveryError, Refused, of_machine
from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.core.jobs.spec import JobFailure, JobOrder, JobReceipt, RestoreSpec, failure_key
from streams_recovery.core.masking import masked
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import poll
from streams_recovery.storage.json_object import create_value, read_noted
from streams_recovery.storage.objects import read_local, write_local
from streams_recovery.storage.progress_store import progress_path
from streams_recovery.storage.repository import AlreadyExists, Repository

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

S = TypeVar("S")

# Spark ends workers that did nothing for a minute (PythonWorkerFactory), and the next ones have to import everything.
_WARM_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[S]):
    """A job as a main runs it: ``work`` turns a specification of this ``kind`` into a result. One process can do it ``alone`` where it asks nothing in SQL."""

    name: str
    kind: type[S]
    work: Callable[[Tasks, S, JobAccess], object]
    alone: bool = False


def run_job(job: Job[S], argv: Sequence[str] | None = None) -> int:
    """The whole of a submitted job: ``do_job`` for ``--spec`` and ``--result``, or for the order that will be at ``--order``, for which Spark starts first. Its
    tasks run in Spark, or in this process. Returns the exit code.
    """
    arguments = _arguments(job, argv)
    try:
        access = JobAccess.from_environment(arguments.repository)
    finally:
        # Read once, and before this process may end: should the submitter be killed, or be gone by now, its secrets do not stay behind.
        if secrets := os.environ.get(SECRETS_FILE):
            Path(secrets).unlink(missing_ok=True)
    sys.excepthook = _tell_unexpected
    end_with_submitter()
    if arguments.order is None:
        begun, order = None, JobOrder(spec=codec.loads(ArtifactRef, arguments.spec.encode(), where="--spec"), result_key=arguments.result)
    else:
        begun = _context(job.name)
        order = _awaited(Path(arguments.order), begun)
    # The tasks of a job that lost its lock end with this process and with nothing less.
    receipt, printed = Path(arguments.receipt), Printed()

    def show(progress: JobProgress) -> None:
        printed(progress)
        write_local(progress_path(receipt), progress)

    return do_job(
        job,
        access,
        order.spec,
        order.result_key,
        tasks=lambda: nullcontext(OneProcess()) if arguments.without_spark else _running(begun or _context(job.name)),
        end=os._exit,
        tell=partial(write_local, receipt),
        board=Board(job=job.name, access=access, result_key=order.result_key, show=show),
    )


def _tell_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # A job's stderr is its log, and what was not expected may repeat anything.
    sys.stderr.write(masked("".join(traceback.format_exception(kind, error, trace))))


def do_job(
    job: Job[S],
    access: JobAccess,
    spec_ref: ArtifactRef,
    result_key: str,
    *,
    tasks: Callable[[], AbstractContextManager[Tasks]],
    end: Callable[[int], object],
    tell: Callable[[JobReceipt], object],
    board: Board | None = None,
) -> int:
    """Read the specification ``spec_ref``, do the work where the ``tasks`` run, create the result at ``result_key``, and ``tell`` the submitter of it before
    that ends. Returns the exit code.

    One of our errors is told instead when that has ended, and described on the last line of stderr; anything else passes through. That of a load is
    noted at ``failure_key`` too, because the load after it may have to begin anew. ``board`` is told how far the job is.
    ``end`` ends the tasks when the lock is lost, from another thread; it is given the exit code.
    """
    repository = access.repository()

    def fail(error: RecoveryError) -> int:
        return _failed(repository, failure_key(result_key) if job.kind is RestoreSpec else None, error, tell)

    try:
        spec = read_noted(repository, job.kind, spec_ref)
        with tasks() as context:
            _check_settings(context)
            with _under_lock(repository, spec, lambda error: end(fail(error))), reporting(board):
                result = job.work(context, spec, access if job.name == "archive" else access.for_tasks(spec))
            # All tasks are over and the lock was held until then: nobody has to wait until Spark has stopped.
            tell(JobReceipt(result=_stored(repository, result_key, result), failure=None))
    except (RecoveryError, TaskFailed) as error:
        return fail(cause_of(error))
    except OSError as error:
        if (lasting := of_machine(error)) is None:
            raise
        return fail(lasting)
    return 0


def _stored(repository: Repository, result_key: str, result: object) -> ArtifactRef:
    try:
        data = create_value(repository, result_key, result)
    except AlreadyExists:
        raise Altered(
            f"{result_key} was there before this job had a result: it was not written by this run",
            next_step="it was not used; find out who can write to this repository and remove it, then run this step again",
            key=result_key,
        ) from None
    return ArtifactRef.of(result_key, data)


def _awaited(path: Path, context: SparkContext) -> JobOrder:
    """The order. Until it is there, and that may be long, workers are kept warm."""
    order = None
    while order is None:
        warm_up(context)
        order = poll(lambda: read_local(JobOrder, path), seconds=_WARM_SECONDS, interval=_LOOK_SECONDS)
    return order


def _context(name: str) -> SparkContext:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # a small job does without

    return SparkContext.getOrCreate(SparkConf().setAppName(f"streams-recovery {name}"))


@contextmanager
def _running(context: SparkContext) -> Iterator[SparkContext]:
    try:
        yield context
    except BaseException:
        # Other tasks may still run, and nobody is told of the error before they have ended.
        context.stop()
        raise
    # After a result nothing runs any more, and Spark stops itself when this process has ended: asked from here it takes a second to.


def _arguments(job: Job[Any], argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=job.name, description="Started by streams_recovery.engine; not meant to be started by hand.")
    parser.set_defaults(without_spark=False)
    if job.alone:
        parser.add_argument("--without-spark", action="store_true", help="do the tasks in this process; needs --spec")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--spec", help="key and hash of the specification in the repository, as JSON; needs --result")
    what.add_argument("--order", help="file of this machine that will name both, where Spark is started before they are known")
    parser.add_argument("--result", help="key to create with the result; must be new for each attempt")
    parser.add_argument("--receipt", required=True, help="file of this machine to tell the submitter in what became of the job")
    parser.add_argument("--repository", required=True, help="where the repository is, as JSON without secrets")
    return parser.parse_args(argv)


def in_sql(work: Callable[[SparkSession, S, JobAccess], object]) -> Callable[[Tasks, S, JobAccess], object]:
    """The work of a job that asks in SQL."""
    return lambda _, spec, access: work(sql_session(), spec, access)


def _check_settings(context: Tasks) -> None:
    if isinstance(context, OneProcess):
        return
    if context.getConf().get("spark.speculation", "false") != "false":
        raise Refused("spark.speculation is on: two tasks could write one partition", next_step="set spark.speculation=false")


def _under_lock(repository: Repository, spec: object, end: Callable[[RecoveryError], object]) -> AbstractContextManager[None]:
    # Jobs that only read need no fence: what they leave is used by nobody but their own run.
    if not isinstance(spec, RestoreSpec):
        return nullcontext()
    return fenced(repository, spec.application_id, spec.lock, end)


def _failed(repository: Repository, note_key: str | None, error: RecoveryError, tell: Callable[[JobReceipt], object]) -> int:
    # The submitter first: the repository may be what has failed.
    tell(JobReceipt(result=None, failure=JobFailure.of(error)))
    try:
        if note_key is not None:
            create_value(repository, note_key, JobFailure.of(error), most_bytes=MOST_BYTES_OF_ENTRY)
    except RecoveryError as second:
        print(f"The failure could not be noted: {second}", file=sys.stderr)  # noqa: T201  # a job's stderr is its log
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
    return error.exit_code
