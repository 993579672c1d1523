"""Archive and topics proven equal before anybody relies on what a restore has loaded: by what the load read back, or by a comparison of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.jobs import PartitionToVerify, PartitionVerified, RestoreResult, VerifyResult, VerifySpec
from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.journal import Phase, result_of
from streams_recovery.core.restore.plan import PartitionLoad, RestorePlan
from streams_recovery.core.restore.proofs import LogState, PartitionProof, judged, needs, read_back, with_empty
from streams_recovery.core.run_artifact import NoteRef
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.restore.open import entries, guarded, note, stored_plan
from streams_recovery.operations.restore.rebuild import check_cleared
from streams_recovery.operations.restore.topics import work_of
from streams_recovery.operations.restore.values import ClearedSummary, RestoreTicket, VerifySummary, verify_summary
from streams_recovery.operations.savepoint.values import NO_JOB, JobPlan

VERIFY_SPEC, VERIFY_RESULT, VERIFIED = "verify-spec", "verify-result", "verified"
_NAMED = 5


def plan_verify(bench: Workbench, ticket: RestoreTicket, loaded: NoteRef | None) -> JobPlan:
    """The specification of the Spark job that compares savepoint and topics row by row and key by key: only for the partitions that the load has not
    proven, so mostly there is none. Inputs of which something is held back are compared once they are whole. ``loaded`` is the load's result; without
    it, of a restore that is resumed, everything is compared.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    return compare_job(bench, ticket, _whole(planned), loaded, keyed_topics(planned))


def _whole(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    held = planned.held_back
    return {tp: load for tp, load in work_of(planned).items() if tp not in held}


def keyed_topics(planned: RestorePlan) -> tuple[str, ...]:
    """The topics that are state."""
    return tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)


def compare_job(
    bench: Workbench, ticket: RestoreTicket, work: Mapping[TopicPartition, PartitionLoad], loaded: NoteRef | None, keyed: Collection[str]
) -> JobPlan:
    """The specification of the job for those partitions of ``work`` that the load has not proven. Topics in ``keyed`` are compared key by key too."""
    now = logs_now(bench, work)
    wanted = needs(work, _of_load(bench, work, loaded, now), now, keyed, requested=_keys_requested(bench, ticket))
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
    noted = bench.notes.write(ticket.restore_id, VERIFY_SPEC, spec)
    return JobPlan(
        spec=noted,
        result_key=bench.notes.answer(noted.key, VERIFY_RESULT),
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
    bench: Workbench, work: Mapping[TopicPartition, PartitionLoad], loaded: NoteRef | None, now: Mapping[TopicPartition, LogState]
) -> dict[TopicPartition, PartitionVerified]:
    return with_empty({} if loaded is None else read_back(bench.notes.read(RestoreResult, loaded)), work, now)


def _keys_requested(bench: Workbench, ticket: RestoreTicket) -> bool:
    return ticket.request.compare_keys or bench.config.restore.compare_keys


def check_verify(bench: Workbench, ticket: RestoreTicket, loaded: NoteRef | None, compared: NoteRef | None) -> VerifySummary:
    """Raise ``Damaged`` unless there is a proof for every planned partition, and its log is still the one that was read. ``loaded`` is the load's result,
    ``compared`` that of the comparison; None when there was none. In a rebuild these are inputs, globals and outputs, if any, and ``verify_cleared``
    has to follow.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    summary = verify_summary(proven(bench, ticket, planned, _whole(planned), loaded, compared))
    if not planned.from_input:
        _note_verified(bench, ticket, summary)
    return summary


def proven(
    bench: Workbench,
    ticket: RestoreTicket,
    planned: RestorePlan,
    work: Mapping[TopicPartition, PartitionLoad],
    loaded: NoteRef | None,
    compared: NoteRef | None,
) -> tuple[PartitionProof, ...]:
    """A proof for each partition of ``work``, from the results of its load and of the comparison, which is the newer one. Raises ``Damaged`` naming
    partitions and keys.
    """
    now = logs_now(bench, work)
    again = bench.notes.read(VerifyResult, compared) if compared else VerifyResult(partitions=(), keys=(), seconds=0)
    verified = _of_load(bench, work, loaded, now) | {TopicPartition(one.topic, one.partition): one for one in again.partitions}
    found = judged(work, verified, again.keys, now, keyed_topics(planned), requested=_keys_requested(bench, ticket))
    if found.problems:
        told = "; ".join(f"{tp}: {problem}" for tp, problem in list(found.problems.items())[:_NAMED])
        raise Damaged(
            f"{len(found.problems)} of {len(work)} partitions are not proven equal to savepoint {planned.savepoint_id or planned.inputs_from}: {told}",
            next_step="let nothing rely on these topics; run the comparison again if one changed or was not compared, else restore again, and verify the "
            "repository if it repeats",
            partitions=sorted(map(str, found.problems)),
        )
    return found.proofs


def verify_cleared(bench: Workbench, ticket: RestoreTicket, verified: VerifySummary) -> ClearedSummary:
    """What stands for the state in a rebuild: the proof that no internal topic is left to take one from. ``verified`` is what ``check_verify`` found of the
    topics that were loaded. Raises ``TargetNotEmpty``.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    gone = check_cleared(bench, stored_plan(bench, ticket))
    _note_verified(bench, ticket, verified)
    return ClearedSummary(gone=gone)


def _note_verified(bench: Workbench, ticket: RestoreTicket, verified: VerifySummary) -> None:
    note(bench, ticket, Phase.VERIFIED, result=bench.notes.write(ticket.restore_id, VERIFIED, verified))


def verified_before(bench: Workbench, ticket: RestoreTicket) -> VerifySummary | None:
    """What the verification of this restore found, by its journal: for one that is resumed after its start, when the topics have gone on. None when none
    was written down.
    """
    result = result_of(entries(bench, ticket), Phase.VERIFIED, Phase.FED)
    return None if result is None else bench.notes.read(VerifySummary, result)
