"""Savepoints of the example application, step by step in the process of the test."""

from __future__ import annotations

from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import PublishedSavepoint, SavepointRequest
from streams_recovery.operations.savepoint.values import CutDraft
from tests.support.stack.stage import Stage


def take(on: Stage, recovery: RecoveryContext, run_id: str) -> PublishedSavepoint:
    """A savepoint, by the same steps as the command line's, in this process."""
    runner = Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)
    return runs.backup(runner, SavepointRequest(run_id=run_id, requested_by="test", reason="", mode=QuiesceMode.PAUSE))


def cut_of(recovery: RecoveryContext, mode: QuiesceMode, run: str) -> CutDraft:
    """A cut the way a savepoint takes it. Nothing is published."""
    ticket = savepoint.begin(recovery, SavepointRequest(run_id=run, requested_by="test", reason="", mode=mode))
    try:
        try:
            taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        finally:
            savepoint.resume(recovery, ticket)
    finally:
        savepoint.finish(recovery, ticket)
    return recovery.artifacts.read(CutDraft, taken.draft)
