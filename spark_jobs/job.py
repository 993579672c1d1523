"""The frame of every job: specification in, result out, an error beside it when there is none."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from spark_jobs.access import SECRETS_FILE, Access
from spark_jobs.fencing import fenced
from spark_jobs.submitter import end_with_submitter
from spark_jobs.transforms.spread import TaskFailed
from streams_recovery.core import codec
from streams_recovery.core.errors import RecoveryError, Refused
from streams_recovery.core.jobs import JobFailure, RestoreSpec, failure_key
from streams_recovery.storage.repository import Repository

S = TypeVar("S")


def run_job(name: str, kind: type[S], work: Callable[[SparkSession, S, Access], object], argv: Sequence[str] | None = None) -> int:
    """Read a ``kind`` at ``--spec``, do ``work``, create its result at ``--result``. Returns the exit code.

    One of our errors is described at ``failure_key`` and on the last line of stderr; anything else passes through.
    """
    end_with_submitter()
    arguments = _arguments(name, argv)
    access = Access.from_environment(arguments.repository)
    # Read once: should the submitter be killed, its secrets do not stay behind.
    Path(os.environ[SECRETS_FILE]).unlink(missing_ok=True)
    repository = access.repository()
    try:
        spec = codec.loads(kind, repository.get(arguments.spec), where=arguments.spec)
        spark = SparkSession.builder.appName(f"streams-recovery {name}").getOrCreate()
        try:
            _check_session(spark)
            with _under_lock(repository, spec, arguments.result):
                result = work(spark, spec, access)
        finally:
            spark.stop()
        repository.create(arguments.result, codec.dumps(result))
    except (RecoveryError, TaskFailed) as error:
        return _failed(repository, arguments.result, error.cause if isinstance(error, TaskFailed) else error)
    return 0


def _arguments(name: str, argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=name, description="Started by streams_recovery.jobs.submit; not meant to be started by hand.")
    parser.add_argument("--spec", required=True, help="key of the specification in the repository")
    parser.add_argument("--result", required=True, help="key to create with the result; must be new for each attempt")
    parser.add_argument("--repository", required=True, help="where the repository is, as JSON without secrets")
    return parser.parse_args(argv)


def _check_session(spark: SparkSession) -> None:
    if spark.conf.get("spark.speculation", "false") != "false":
        raise Refused("spark.speculation is on: two tasks could write one partition", next_step="set spark.speculation=false")


def _under_lock(repository: Repository, spec: object, result_key: str) -> AbstractContextManager[None]:
    # Jobs that only read need no fence: what they leave is used by nobody but their own run.
    if not isinstance(spec, RestoreSpec):
        return nullcontext()
    return fenced(repository, spec.application_id, spec.lock, lambda error: _failed(repository, result_key, error))


def _failed(repository: Repository, result_key: str, error: RecoveryError) -> int:
    try:
        repository.create(failure_key(result_key), codec.dumps(JobFailure.of(error)))
    except RecoveryError as second:
        print(f"The failure could not be noted: {second}", file=sys.stderr)  # noqa: T201  # a job's stderr is its log
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)  # noqa: T201
    return error.exit_code
