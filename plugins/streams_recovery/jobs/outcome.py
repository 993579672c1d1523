"""What a job left in the repository: its result, or the error that ended it."""

from __future__ import annotations

from typing import TypeVar

from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import NotFound, SparkJobFailed
from streams_recovery.core.jobs import JobFailure, failure_key
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.values import read_value

T = TypeVar("T")


def read_outcome(repository: Repository, result_key: str, kind: type[T], *, log_tail: str = "") -> T:
    """The result at ``result_key``. Raises the error that the job left instead, or ``SparkJobFailed`` with ``log_tail`` when it left nothing.

    A result that cannot be read as a ``kind`` is ``Damaged``. How the process exited does not count: only what it left does.
    """
    try:
        return read_value(repository, kind, result_key)
    except NotFound:
        pass
    try:
        failure = read_value(repository, JobFailure, failure_key(result_key), most_bytes=MOST_BYTES_OF_ENTRY)
    except NotFound:
        raise SparkJobFailed(
            f"the Spark job ended without its result {result_key}{': ' + log_tail if log_tail else ''}",
            next_step="read the job's log, then run the step again",
            result_key=result_key,
            log_tail=log_tail,
        ) from None
    raise failure.as_error()
