"""The input that was held back from an application until it had processed what comes before: loaded while it is down, and compared.

It is down because Kafka Streams brings the partitions of a task together by timestamp only as far as they are there (``PartitionGroup``): one that gets its
records while another is still being loaded is read without it, and joins and windows come out differently.
"""

from __future__ import annotations

from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.parts.interval import deferred
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import PartitionLoad
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.ready import await_at_work
from streams_recovery.operations.renewed_lock import renewed_lock
from streams_recovery.operations.restore.drain import drain_to, require_read
from streams_recovery.operations.restore.load import check_down, check_written, load_job, load_progress, refused_topics, topic_ids, work_of
from streams_recovery.operations.restore.open import guarded, note, resume_command, stored_plan
from streams_recovery.operations.restore.start import launched
from streams_recovery.operations.restore.values import EndsSummary, LoadSummary, RestoreTicket, StartSummary, VerifySummary, verify_summary
from streams_recovery.operations.restore.verify import VERIFIED, compare_job, proven, require_verified

_BEGIN = "find out who writes there and stop that; then process the interval again from its beginning"


def drain_before_interval(recovery: RecoveryContext, ticket: RestoreTicket) -> EndsSummary:
    """Wait until the application has processed the input that was loaded first, and stop it. Nothing to do if no input was held back.

    Raises ``ApplicationNotReady`` when it processes no more, and ``Damaged`` when it did not close: its state would be read from changelogs that it has
    written itself, which keep records of an old interval no longer than others of that age.
    """
    planned, held = _held(recovery, ticket, before=Phase.INPUT_COMPLETE)
    if not held:
        return EndsSummary(partitions=0, closed_cleanly=True, seconds=0)
    ended = drain_to(recovery, ticket, planned, deferred(planned))
    if not ended.closed_cleanly:
        raise Damaged(
            f"{recovery.application_id} was stopped in the middle of its interval and did not close",
            next_step="look at the instances' logs, raise stop_timeout_seconds if they need longer, and process the interval again",
            application_id=recovery.application_id,
        )
    return ended


def plan_load_deferred(recovery: RecoveryContext, ticket: RestoreTicket) -> JobPlan:
    """The specification of the job that loads the input that was held back. Repeating it goes on behind the records of an earlier attempt.

    Raises ``ApplicationRunning``, ``ApplicationNotReady`` before all input that was loaded first is processed, ``OffsetsUnstable`` while the topics are written
    to, and ``Damaged`` for records that cannot be of this restore: the application has read from these topics, and they are not created again.
    """
    planned, held = _held(recovery, ticket, before=Phase.INPUT_COMPLETE)
    if not held:
        return NO_JOB
    check_down(recovery)
    require_read(recovery, planned, deferred(planned))
    standing = load_progress(recovery, {tp: load.rows for tp, load in held.items()})
    ids = topic_ids(recovery, {tp.topic for tp in held})
    refused = refused_topics(recovery, ticket)
    strange = sorted(str(tp) for tp in held if standing[tp].present is None or ids[tp.topic] in refused)
    if strange:
        raise Damaged(
            f"{', '.join(strange)} hold records that this restore cannot have written, and the application has read from there",
            next_step=_BEGIN,
            partitions=strange,
        )
    return load_job(recovery, ticket, held, standing, {})


def check_load_deferred(recovery: RecoveryContext, ticket: RestoreTicket, result: ArtifactRef | None) -> LoadSummary:
    """Compare what the job wrote with the plan and with the logs' ends."""
    _, held = _held(recovery, ticket, before=Phase.INPUT_COMPLETE)
    return check_written(recovery, {tp: load.rows for tp, load in held.items()}, result, next_step=_BEGIN)


def plan_verify_deferred(recovery: RecoveryContext, ticket: RestoreTicket, fed: ArtifactRef | None) -> JobPlan:
    """The specification of the Spark job that compares the inputs that are whole now with the archive, those that ``fed``, their load, has not proven."""
    _, held = _held(recovery, ticket, before=Phase.INPUT_COMPLETE)
    return compare_job(recovery, ticket, held, fed, ()) if held else NO_JOB


def check_verify_deferred(
    recovery: RecoveryContext, ticket: RestoreTicket, before: VerifySummary | None, fed: ArtifactRef | None, compared: ArtifactRef | None
) -> VerifySummary:
    """Raise ``Damaged`` unless every input of which something was held back is proven. The proofs from ``before`` the start still count; a resumed restore,
    without them, reads them from its journal.
    """
    planned, held = _held(recovery, ticket, before=Phase.CLOSED)
    before = require_verified(recovery, ticket) if before is None else before
    if not held:
        note(recovery, ticket, Phase.INPUT_COMPLETE)
        return before
    found = proven(recovery, ticket, planned, held, fed, compared)
    summary = verify_summary((*(one for one in before.partitions if TopicPartition(one.topic, one.partition) not in held), *found))
    note(recovery, ticket, Phase.INPUT_COMPLETE, result=recovery.artifacts.write(ticket.restore_id, VERIFIED, summary))
    return summary


def start_on_interval(recovery: RecoveryContext, ticket: RestoreTicket) -> StartSummary:
    """Start every instance that is down, and wait until it is RUNNING and has processed its inputs as they are now. Raises ``ApplicationNotReady``."""
    planned = stored_plan(recovery, ticket)
    guarded(recovery, ticket, at_least=Phase.INPUT_COMPLETE, before=Phase.CLOSED)
    with renewed_lock(recovery, ticket):
        started = launched(recovery, ticket, planned)
        await_at_work(recovery, started.ends, again=resume_command(recovery, ticket))
    return started


def _held(recovery: RecoveryContext, ticket: RestoreTicket, *, before: Phase) -> tuple[RestorePlan, dict[TopicPartition, PartitionLoad]]:
    guarded(recovery, ticket, at_least=Phase.RECOVERED, before=before)
    planned = stored_plan(recovery, ticket)
    held = deferred(planned)
    return planned, {tp: load for tp, load in work_of(planned).items() if tp in held}
