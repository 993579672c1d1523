"""What became of a job: its result in the repository, or the error that ended it."""

from __future__ import annotations

from streams_recovery.core.errors import Damaged, SparkJobFailed
from streams_recovery.core.jobs.spec import JobReceipt
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.storage.json_object import read_noted
from streams_recovery.storage.repository import Repository


def read_outcome(repository: Repository, receipt: JobReceipt | None, result_key: str, kind: type, *, log_tail: str = "") -> ArtifactRef:
    """The result that the job has stored at ``result_key``, by its ``receipt``. Raises the error that the job tells of instead, and ``SparkJobFailed``
    with ``log_tail`` when it told nothing.

    A result that cannot be read as a ``kind`` is ``Damaged``, one that the job did not store ``Altered``. How the process exited does not count.
    """
    if receipt is not None and receipt.failure is not None:
        raise receipt.failure.as_error()
    if receipt is None or receipt.result is None:
        raise SparkJobFailed(
            f"the Spark job ended without its result {result_key}{': ' + log_tail if log_tail else ''}",
            next_step="read the job's log, then run the step again",
            result_key=result_key,
            log_tail=log_tail,
        )
    if receipt.result.key != result_key:
        raise Damaged(
            f"the Spark job has stored {receipt.result.key}, and {result_key} was asked for", next_step="run the step again", key=result_key
        )
    # Only for its errors: a result that cannot be used fails this step, not the one that needs it.
    read_noted(repository, kind, receipt.result)
    return receipt.result
