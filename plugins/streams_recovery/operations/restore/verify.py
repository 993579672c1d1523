"""Archive and topics proven equal before anybody relies on what a restore has loaded: by what the load read back, or by a comparison of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan, PartitionToVerify, PartitionVerified, RestoreResult, VerifyResult, VerifySpec
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.journal import Phase, result_of
from streams_recovery.core.restore.parts.interval import deferred
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import PartitionLoad
from streams_recovery.core.restore.proofs import LogState, Need, PartitionProof, judged, needs, read_back, with_empty
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.load import work_of
from streams_recovery.operations.restore.open import entries, guarded, note, stored_plan
from streams_recovery.operations.restore.rebuild_plan import check_cleared
from streams_recovery.operations.restore.values import ClearedSummary, RestoreTicket, VerifySummary, verify_summary

VERIFY_SPEC, VERIFY_RESULT, VERIFIED = "verify-spec", "verify-result", "verified"
_NAMED = 5


def plan_verify(recovery: RecoveryContext, ticket: RestoreTicket, loaded: ArtifactRef | None) -> JobPlan:
    """The specification of the Spark job that compares savepoint and topics row by row and key by key: only for the partitions that the load has not
    proven, so mostly there is none. Inputs of which something is held back are compared once they are whole. ``loaded`` is the load's result; without
    it, of a restore that is resumed, everything is compared.
    """
    guarded(recovery, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(recovery, ticket)
    return compare_job(recovery, ticket, _whole(planned), loaded, _keyed_topics(planned))


def _whole(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    held = deferred(planned)
    return {tp: load for tp, load in work_of(planned).items() if tp not in held}


def _keyed_topics(planned: RestorePlan) -> tuple[str, ...]:
    """The topics that are state."""
    return tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)


def compare_job(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    work: Mapping[TopicPartition, PartitionLoad],
    loaded: ArtifactRef | None,
    keyed: Collection[str],
) -> JobPlan:
    """The specification of the job for those partitions of ``work`` that the load has not proven. Topics in ``keyed`` are compared key by key too."""
    now = _logs_now(recovery, work)
    wanted = needs(work, _of_load(recovery, work, loaded, now), now, keyed, requested=ticket.request.compare_keys)
    if not wanted:
        return NO_JOB
    partitions = tuple(
        PartitionToVerify(
            tp=tp,
            target_topic=tp.topic,
            topic_id=now[tp].topic_id,
            start=now[tp].start,
            end=now[tp].end,
            files=work[tp].files,
            cut=work[tp].cut,
            # The proof by rows is the load's then, and is judged again after the comparison.
            rows_proven=need is Need.KEYS,
        )
        for tp, need in wanted.items()
    )
    chosen = tuple(topic for topic in keyed if any(tp.topic == topic for tp in wanted))
    spec = VerifySpec(application_id=recovery.application_id, partitions=partitions, keyed=chosen)
    noted = recovery.artifacts.write(ticket.restore_id, VERIFY_SPEC, spec)
    return JobPlan(
        spec=noted,
        result_key=recovery.artifacts.answer(noted.key, VERIFY_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.end - partition.start for partition in partitions),
        # Keys are compared in SQL.
        volume=None if chosen else JobVolume.of((work[tp].rows, work[tp].payload_bytes) for tp in wanted),
    )


def _logs_now(recovery: RecoveryContext, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogState]:
    """Every log as the broker has it at this moment. Raises ``NotFound`` for one that is gone."""
    wanted = list(partitions)
    starts, ends = recovery.cluster.log_starts(wanted), recovery.cluster.high_watermarks(wanted)
    topics = recovery.cluster.describe_topics({tp.topic for tp in wanted})
    gone = sorted({tp.topic for tp in wanted} - set(topics))
    if gone:
        raise NotFound(
            f"topics of this restore are gone: {', '.join(gone)}", next_step="find out who deleted them, then restore again", topics=gone
        )
    return {tp: LogState(topic_id=topics[tp.topic].topic_id, start=starts[tp], end=ends[tp]) for tp in wanted}


def _of_load(
    recovery: RecoveryContext,
    work: Mapping[TopicPartition, PartitionLoad],
    loaded: ArtifactRef | None,
    now: Mapping[TopicPartition, LogState],
) -> dict[TopicPartition, PartitionVerified]:
    return with_empty({} if loaded is None else read_back(recovery.artifacts.read(RestoreResult, loaded)), work, now)


def check_verify(
    recovery: RecoveryContext, ticket: RestoreTicket, loaded: ArtifactRef | None, compared: ArtifactRef | None
) -> VerifySummary:
    """Raise ``Damaged`` unless there is a proof for every planned partition, and its log is still the log that was read. ``loaded`` is the load's result,
    ``compared`` that of the comparison; None when there was none. In a rebuild these are inputs, globals and outputs, if any, and ``verify_cleared``
    has to follow.
    """
    guarded(recovery, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(recovery, ticket)
    summary = verify_summary(proven(recovery, ticket, planned, _whole(planned), loaded, compared))
    if not planned.from_input:
        _note_verified(recovery, ticket, summary)
    return summary


def proven(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    planned: RestorePlan,
    work: Mapping[TopicPartition, PartitionLoad],
    loaded: ArtifactRef | None,
    compared: ArtifactRef | None,
) -> tuple[PartitionProof, ...]:
    """A proof for each partition of ``work``, from the results of its load and of the comparison, which is the newer one. Raises ``Damaged`` naming
    partitions and keys.
    """
    now = _logs_now(recovery, work)
    again = recovery.artifacts.read(VerifyResult, compared) if compared else VerifyResult(partitions=(), keys=(), seconds=0)
    verified = _of_load(recovery, work, loaded, now) | {one.tp: one for one in again.partitions}
    found = judged(work, verified, again.keys, now, _keyed_topics(planned), requested=ticket.request.compare_keys)
    if found.problems:
        message = "; ".join(f"{tp}: {problem}" for tp, problem in list(found.problems.items())[:_NAMED])
        raise Damaged(
            f"{len(found.problems)} of {len(work)} partitions are not proven equal to savepoint {planned.compared_with}: {message}",
            next_step="let nothing rely on these topics; run the comparison again if one changed or was not compared, else restore again, and verify the "
            "repository if it repeats",
            partitions=sorted(map(str, found.problems)),
            problems={str(tp): problem for tp, problem in found.problems.items()},
            compared=len(work),
        )
    return found.proofs


def verify_cleared(recovery: RecoveryContext, ticket: RestoreTicket, verified: VerifySummary) -> ClearedSummary:
    """Prove that no internal topic is left to take a state from: in a rebuild this takes the place of a comparison of state. ``verified`` is what
    ``check_verify`` found of the loaded topics. Raises ``TargetNotEmpty``.
    """
    guarded(recovery, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    gone = check_cleared(recovery, stored_plan(recovery, ticket))
    _note_verified(recovery, ticket, verified)
    return ClearedSummary(gone=gone)


def _note_verified(recovery: RecoveryContext, ticket: RestoreTicket, verified: VerifySummary) -> None:
    note(recovery, ticket, Phase.VERIFIED, result=recovery.artifacts.write(ticket.restore_id, VERIFIED, verified))


def require_verified(recovery: RecoveryContext, ticket: RestoreTicket) -> VerifySummary:
    """The result of the verification of this restore, by its journal: for one that is resumed after its start, when the topics have gone on. Raises ``Damaged``
    when nothing was written down.
    """
    result = result_of(entries(recovery, ticket), Phase.VERIFIED, Phase.INPUT_COMPLETE)
    if result is None:
        raise Damaged(
            f"nothing says what the verification of restore {ticket.restore_id} found",
            next_step="stop the application, and restore it again",
            restore=ticket.restore_id,
        )
    return recovery.artifacts.read(VerifySummary, result)
