"""Archive and topics compared, row by row and key by key, before anybody relies on what a restore has loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs import PartitionToVerify, VerifyResult, VerifySpec
from streams_recovery.core.journal import Phase
from streams_recovery.core.model import TopicPartition, TopicRole
from streams_recovery.core.plan import PartitionLoad, RestorePlan
from streams_recovery.restores.creating import work_of
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.rebuilding import check_cleared
from streams_recovery.restores.values import NOTHING_COMPARED, ClearedSummary, RestoreTicket, VerifySummary
from streams_recovery.savepoints.values import JobPlan
from streams_recovery.workbench import Workbench

VERIFY_SPEC, VERIFY_RESULT, VERIFIED = "verify-spec", "verify-result", "verified"
_NAMED = 5


def plan_verify(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that compares savepoint and topics, row by row and key by key. Inputs of which something is held back are
    compared once they are whole.
    """
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    keyed = tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)
    return compare_job(bench, ticket, _whole(planned), keyed)


def _whole(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    held = planned.held_back
    return {tp: load for tp, load in work_of(planned).items() if tp not in held}


def compare_job(bench: Workbench, ticket: RestoreTicket, work: Mapping[TopicPartition, PartitionLoad], keyed: tuple[str, ...]) -> JobPlan:
    """The specification of the job that compares these partitions, and the topics ``keyed`` key by key too."""
    ends, starts = bench.cluster.high_watermarks(list(work)), bench.cluster.log_starts(list(work))
    partitions = tuple(
        PartitionToVerify(
            topic=tp.topic, partition=tp.partition, target_topic=tp.topic, start=starts[tp], end=ends[tp], files=load.files, cut=load.cut
        )
        for tp, load in work.items()
    )
    spec = VerifySpec(application_id=bench.application_id, partitions=partitions, keyed=keyed)
    spec_key = bench.notes.write(ticket.restore_id, VERIFY_SPEC, spec)
    return JobPlan(
        spec_key=spec_key,
        result_key=bench.notes.answer(spec_key, VERIFY_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.end - partition.start for partition in partitions),
    )


def check_verify(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> VerifySummary:
    """Raise ``Damaged`` unless every planned partition was compared and equal, and every changelog with rows had keys to compare."""
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    if planned.from_input:
        raise Damaged("a rebuild has no savepoint to compare with", next_step="check that the internal topics are gone instead")
    work = _whole(planned)
    result = compared(bench, planned, work, result_key)
    rows = sum(found.loaded_rows for found in result.partitions)
    keys = sum(store.keys_compared for store in result.stores)
    keyed = sum(topic.rows for topic in planned.create if topic.role is TopicRole.CHANGELOG)
    if (sum(load.rows for load in work.values()) and not rows) or (keyed and not keys):
        raise Damaged("the verification compared nothing", next_step="look at the Spark job's log", rows=rows, keys=keys)
    summary = VerifySummary(partitions=result.partitions, stores=result.stores, rows_compared=rows, keys_compared=keys)
    bench.notes.write(ticket.restore_id, VERIFIED, summary)
    note(bench, ticket, Phase.VERIFIED)
    return summary


def compared(bench: Workbench, planned: RestorePlan, work: Iterable[TopicPartition], result_key: str | None) -> VerifyResult:
    """What a job found, in which every partition of ``work`` was compared and nothing differs. Raises ``Damaged``."""
    if result_key is None:
        raise Damaged("no verification ran", next_step="clear the verification task and run it again")
    result = bench.notes.read_key(VerifyResult, result_key)
    missing = set(work) - {TopicPartition(found.topic, found.partition) for found in result.partitions}
    unequal = [f"{found.topic}-{found.partition}" for found in result.partitions if not found.equal]
    differing = [
        f"{store.topic}: {store.keys_different} keys, such as {', '.join(store.examples[:3])}"
        for store in result.stores
        if store.keys_different
    ]
    if missing or unequal or differing:
        raise Damaged(
            f"restored topics differ from savepoint {planned.savepoint_id}: not compared {sorted(map(str, missing))[:_NAMED]}, "
            f"rows differ in {unequal[:_NAMED]}, keys differ in {differing[:_NAMED]}",
            next_step="let nothing rely on these topics; restore again, and verify the repository if it repeats",
            partitions=unequal,
        )
    return result


def verify_cleared(bench: Workbench, ticket: RestoreTicket) -> ClearedSummary:
    """What stands for the load and its verification in a rebuild: the proof that no internal topic is left to take state from. Raises
    ``TargetNotEmpty``.
    """
    guarded(bench, ticket, at_least=Phase.CREATED, before=Phase.OFFSETS_SET)
    gone = check_cleared(bench, stored_plan(bench, ticket))
    bench.notes.write(ticket.restore_id, VERIFIED, NOTHING_COMPARED)
    note(bench, ticket, Phase.VERIFIED)
    return ClearedSummary(gone=gone)


def verified(bench: Workbench, ticket: RestoreTicket) -> VerifySummary:
    """What the verification of this restore found. Raises ``NotFound`` before it ran."""
    return bench.notes.read(VerifySummary, ticket.restore_id, VERIFIED)
