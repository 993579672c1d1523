"""Archive and topics proven equal before anybody relies on what a restore has loaded: by what the load read back, or by a comparison of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs import PartitionToVerify, PartitionVerified, RestoreResult, VerifyResult, VerifySpec
from streams_recovery.core.journal import Phase
from streams_recovery.core.model import TopicPartition, TopicRole
from streams_recovery.core.plan import PartitionLoad, RestorePlan
from streams_recovery.core.proofs import LogState, PartitionProof, judged, needs, read_back, with_empty
from streams_recovery.restores.creating import work_of
from streams_recovery.restores.loading import LOADED
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.rebuilding import check_cleared
from streams_recovery.restores.values import ClearedSummary, LoadAccepted, RestoreTicket, VerifySummary, verify_summary
from streams_recovery.savepoints.values import NO_JOB, JobPlan
from streams_recovery.workbench import Workbench

VERIFY_SPEC, VERIFY_RESULT, VERIFIED = "verify-spec", "verify-result", "verified"
_NAMED = 5


def plan_verify(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that compares savepoint and topics row by row and key by key: only for the partitions that the load has not
    proven, so mostly there is none. Inputs of which something is held back are compared once they are whole.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    return compare_job(bench, ticket, _whole(planned), LOADED, keyed_topics(planned))


def _whole(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    held = planned.held_back
    return {tp: load for tp, load in work_of(planned).items() if tp not in held}


def keyed_topics(planned: RestorePlan) -> tuple[str, ...]:
    """The topics that are state."""
    return tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)


def compare_job(
    bench: Workbench, ticket: RestoreTicket, work: Mapping[TopicPartition, PartitionLoad], accepted: str, keyed: Collection[str]
) -> JobPlan:
    """The specification of the job for those partitions of ``work`` that the load noted as ``accepted`` has not proven. Topics in ``keyed`` are compared
    key by key too.
    """
    now = logs_now(bench, work)
    wanted = needs(work, _of_load(bench, ticket, work, accepted, now), now, keyed, requested=_keys_requested(bench, ticket))
    if not wanted:
        return NO_JOB
    partitions = tuple(
        PartitionToVerify(
            topic=tp.topic,
            partition=tp.partition,
            target_topic=tp.topic,
            topic_id=now[tp].topic_id,
            start=now[tp].start,
            end=now[tp].end,
            files=work[tp].files,
            cut=work[tp].cut,
        )
        for tp in wanted
    )
    chosen = tuple(topic for topic in keyed if any(tp.topic == topic for tp in wanted))
    spec = VerifySpec(application_id=bench.application_id, partitions=partitions, keyed=chosen)
    spec_key = bench.notes.write(ticket.restore_id, VERIFY_SPEC, spec)
    return JobPlan(
        spec_key=spec_key,
        result_key=bench.notes.answer(spec_key, VERIFY_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.end - partition.start for partition in partitions),
    )


def logs_now(bench: Workbench, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogState]:
    """Every log as the broker has it at this moment. Raises ``NotFound`` for one that is gone."""
    wanted = list(partitions)
    starts, ends = bench.cluster.log_starts(wanted), bench.cluster.high_watermarks(wanted)
    topics = bench.cluster.describe_topics({tp.topic for tp in wanted})
    gone = sorted({tp.topic for tp in wanted} - set(topics))
    if gone:
        raise NotFound(
            f"topics of this restore are gone: {', '.join(gone)}", next_step="find out who deleted them, then restore again", topics=gone
        )
    return {tp: LogState(topic_id=topics[tp.topic].topic_id, start=starts[tp], end=ends[tp]) for tp in wanted}


def _of_load(
    bench: Workbench,
    ticket: RestoreTicket,
    work: Mapping[TopicPartition, PartitionLoad],
    accepted: str,
    now: Mapping[TopicPartition, LogState],
) -> dict[TopicPartition, PartitionVerified]:
    key = bench.notes.read(LoadAccepted, ticket.restore_id, accepted).result_key
    return with_empty({} if key is None else read_back(bench.notes.read_key(RestoreResult, key)), work, now)


def _keys_requested(bench: Workbench, ticket: RestoreTicket) -> bool:
    return ticket.request.compare_keys or bench.config.restore.compare_keys


def check_verify(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> VerifySummary:
    """Raise ``Damaged`` unless there is a proof for every planned partition, and its log is still the one that was read. ``result_key`` is that of the
    comparison, None when there was none. In a rebuild these are inputs, globals and outputs, if any, and ``verify_cleared`` has to follow.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    summary = verify_summary(proven(bench, ticket, planned, _whole(planned), LOADED, result_key))
    bench.notes.write(ticket.restore_id, VERIFIED, summary)
    if not planned.from_input:
        note(bench, ticket, Phase.VERIFIED)
    return summary


def proven(
    bench: Workbench,
    ticket: RestoreTicket,
    planned: RestorePlan,
    work: Mapping[TopicPartition, PartitionLoad],
    accepted: str,
    result_key: str | None,
) -> tuple[PartitionProof, ...]:
    """A proof for each partition of ``work``, from the load noted as ``accepted`` and the comparison at ``result_key``, which is the newer one. Raises
    ``Damaged`` naming partitions and keys.
    """
    now = logs_now(bench, work)
    compared = bench.notes.read_key(VerifyResult, result_key) if result_key else VerifyResult(partitions=(), keys=(), seconds=0)
    verified = _of_load(bench, ticket, work, accepted, now) | {TopicPartition(one.topic, one.partition): one for one in compared.partitions}
    found = judged(work, verified, compared.keys, now, keyed_topics(planned), requested=_keys_requested(bench, ticket))
    if found.problems:
        told = "; ".join(f"{tp}: {problem}" for tp, problem in list(found.problems.items())[:_NAMED])
        raise Damaged(
            f"{len(found.problems)} of {len(work)} partitions are not proven equal to savepoint {planned.savepoint_id or planned.inputs_from}: {told}",
            next_step="let nothing rely on these topics; run the comparison again if one changed or was not compared, else restore again, and verify the "
            "repository if it repeats",
            partitions=sorted(map(str, found.problems)),
        )
    return found.proofs


def verify_cleared(bench: Workbench, ticket: RestoreTicket) -> ClearedSummary:
    """What stands for the state in a rebuild: the proof that no internal topic is left to take one from. Raises ``TargetNotEmpty``, and ``NotFound``
    when what was loaded has not been verified.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.OFFSETS_SET)
    gone = check_cleared(bench, stored_plan(bench, ticket))
    verified(bench, ticket)
    note(bench, ticket, Phase.VERIFIED)
    return ClearedSummary(gone=gone)


def verified(bench: Workbench, ticket: RestoreTicket) -> VerifySummary:
    """What the verification of this restore found. Raises ``NotFound`` before it ran."""
    return bench.notes.read(VerifySummary, ticket.restore_id, VERIFIED)
