"""Steps of a savepoint, and whole savepoints, with the job's work done here."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from streams_recovery.core.jobs.spec import BackupResult, BackupSpec, JobPlan
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.savepoint.damage import ChangedState
from streams_recovery.kafka.range_copy import copy_what_is_left
from streams_recovery.operations import savepoint
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import CutSummary, PublishedSavepoint, SavepointRequest, Ticket
from streams_recovery.operations.savepoint.values import CutDraft
from tests.support.applications.small import Small
from tests.support.repository.stored import left


def begun(recovery: RecoveryContext, mode: QuiesceMode = QuiesceMode.STOP, changed_state: ChangedState = ChangedState.REFUSE) -> Ticket:
    """A savepoint that has begun: it has the lock."""
    request = SavepointRequest(
        run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=mode, changed_state=changed_state, confirm=recovery.application_id
    )
    return savepoint.begin(recovery, request)


def cut(recovery: RecoveryContext, mode: QuiesceMode = QuiesceMode.STOP) -> CutDraft:
    """A cut that is not published."""
    ticket = begun(recovery, mode)
    try:
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
    finally:
        savepoint.finish(recovery, ticket)
    return recovery.artifacts.read(CutDraft, taken.draft)


def publish(small: Small) -> str:
    """A savepoint of the stopped application."""
    return take(small).savepoint_id


def nothing() -> None:
    """Meddle with nothing."""


def take(
    small: Small,
    *,
    after_cut: Callable[[], object] = nothing,
    after_copy: Callable[[], object] = nothing,
    mode: QuiesceMode = QuiesceMode.STOP,
    changed_state: ChangedState = ChangedState.REFUSE,
    recovery: RecoveryContext | None = None,
) -> PublishedSavepoint:
    """A savepoint, copied here as the tasks of the job would. The two callables meddle between its steps."""
    recovery = recovery or small.recovery
    ticket = begun(recovery, mode, changed_state)
    try:
        taken = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
        after_cut()
        done = copy(recovery, ticket, taken)
        after_copy()
        return savepoint.publish(recovery, ticket, savepoint.gather(recovery, ticket, *done).copied)
    finally:
        savepoint.finish(recovery, ticket)


def copy(recovery: RecoveryContext, ticket: Ticket, taken: CutSummary) -> tuple[ArtifactRef | None, ArtifactRef | None]:
    """What the job does, here. Returns its plan and its result."""
    plan = savepoint.plan_copy(recovery, ticket, taken.draft)
    return plan.plan, copied(recovery, plan)


def copied(recovery: RecoveryContext, plan: JobPlan) -> ArtifactRef | None:
    """A job that is planned already, done here."""
    if plan.spec is not None and plan.result_key is not None:
        done = [
            copy_what_is_left(
                recovery.connection,
                recovery.repository,
                recovery.layout,
                wanted,
                compression_level=3,
                attempt=uuid.uuid4().hex,
                key=recovery.repository.data_keys.writing(recovery.application_id),
            )()
            for wanted in recovery.artifacts.read(BackupSpec, plan.spec).ranges
        ]
        result = BackupResult(
            ranges=tuple(piece for outcome in done for piece in outcome.copied),
            lost=tuple(piece for outcome in done for piece in outcome.lost),
            seconds=0,
        )
        return left(recovery, plan.result_key, result)
    return None


def published(small: Small, **how: object) -> Manifest:
    """The savepoint itself."""
    return small.recovery.savepoints.read(take(small, **how).savepoint_id)  # type: ignore[arg-type]
