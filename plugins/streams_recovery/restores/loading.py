"""Internal topics: created, loaded and compared, each step checked before the next."""

from __future__ import annotations

from streams_recovery.core.errors import ApplicationRunning, Damaged
from streams_recovery.core.jobs import (
    PartitionLoaded,
    PartitionToLoad,
    PartitionToVerify,
    RestoreResult,
    VerifyResult,
    VerifySpec,
)
from streams_recovery.core.journal import JournalEntry, Phase, created_by, reached
from streams_recovery.core.model import TopicPartition, TopicRole
from streams_recovery.core.plan import PartitionLoad, RestorePlan
from streams_recovery.restores.choosing import pinned
from streams_recovery.restores.creating import LOAD_RESULT, begin_again, create_topic
from streams_recovery.restores.in_place import set_aside
from streams_recovery.restores.living import check_same_targets, spans
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.planning import plan
from streams_recovery.restores.rebuilding import check_cleared, check_still_planned
from streams_recovery.restores.specs import restore_spec
from streams_recovery.restores.values import NOTHING_COMPARED, ClearedSummary, LoadSummary, PrepareSummary, RestoreTicket, VerifySummary
from streams_recovery.savepoints.values import JobPlan
from streams_recovery.workbench import Workbench

LOAD_SPEC, VERIFY_SPEC, VERIFY_RESULT, VERIFIED = "load-spec", "verify-spec", "verify-result", "verified"


def prepare(bench: Workbench, ticket: RestoreTicket) -> PrepareSummary:
    """Delete what the plan replaces, and create every internal topic empty and under hold. Repeating it begins again from empty topics: what an
    earlier attempt loaded is known by its topic ids and deleted, because loading twice would double it. Anybody else's topics are refused.
    """
    written = guarded(bench, ticket, at_least=Phase.SAVED, before=Phase.OFFSETS_SET)
    _check_down(bench)
    planned = stored_plan(bench, ticket)
    current = _still(bench, ticket, planned, written)
    steps = current.create
    set_aside(bench, ticket, planned, current)
    note(bench, ticket, Phase.DESTROYING)
    wanted = [*(step.name for step in steps), *(gone.name for gone in current.delete)]
    existing = bench.cluster.describe_topics(wanted)
    bench.cluster.delete_topics(sorted(existing))
    for step in steps:
        create_topic(bench, ticket, step, Phase.DESTROYING)
    note(bench, ticket, Phase.CREATED)
    return PrepareSummary(created=tuple(step.name for step in steps), replaced=tuple(sorted(existing)))


def _still(bench: Workbench, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]) -> RestorePlan:
    """The plan as it is now, proven to delete nothing that was not shown."""
    mine = created_by(written)
    if planned.from_input:
        begun = reached(written).rank >= Phase.DESTROYING.rank
        check_still_planned(bench, planned, {step.name: mine.get(step.name, set()) for step in planned.create} if begun else {})
        return planned
    current = plan(bench, pinned(bench, ticket.request, planned), mine=mine)
    check_same_targets(planned, current, empty=_created_unnoted(bench, written, current))
    return current


def _created_unnoted(bench: Workbench, written: tuple[JournalEntry, ...], current: RestorePlan) -> set[str]:
    """Topics that an attempt of this restore may have created right before it died, so that it could not write down which they are."""
    if reached(written).rank < Phase.DESTROYING.rank:
        return set()
    existing = bench.cluster.describe_topics([step.name for step in current.create])
    return set(existing) - set(spans(bench, existing))


def _check_down(bench: Workbench) -> None:
    group = bench.groups.describe(bench.application_id)
    if not group.empty:
        members = ", ".join(f"{member.client_id} at {member.host}" for member in group.members) or group.state
        raise ApplicationRunning(
            f"{bench.application_id} is running: {members}", next_step="stop it and run this restore again", members=members
        )


def plan_load(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that loads the topics. Where an earlier attempt broke off, the job goes on behind the records it left, once
    they were compared; topics of which that cannot be true are created again here.
    """
    written = guarded(bench, ticket, at_least=Phase.CREATED, before=Phase.LOADED)
    _check_down(bench)
    planned = stored_plan(bench, ticket)
    standing = {found.tp: found for found in begin_again(bench, ticket, planned, written)}
    ids = {name: topic.topic_id for name, topic in bench.cluster.describe_topics([step.name for step in planned.create]).items()}
    partitions = tuple(
        PartitionToLoad(
            topic=tp.topic,
            partition=tp.partition,
            first_offset=standing[tp].start,
            files=load.files,
            present=standing[tp].end - standing[tp].start,
            topic_id=ids[tp.topic],
            cut=load.cut,
        )
        for tp, load in _work(planned).items()
        if load.files
    )
    if not partitions:
        return JobPlan(spec_key=None, result_key=None, ranges=0, offsets=0)
    spec_key = bench.notes.write(ticket.restore_id, LOAD_SPEC, restore_spec(bench, ticket, partitions))
    return JobPlan(
        spec_key=spec_key,
        result_key=bench.notes.answer(spec_key, LOAD_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.rows - partition.present for partition in partitions),
    )


def _work(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    return {TopicPartition(topic.name, part.partition): part for topic in planned.create for part in topic.partitions}


def check_load(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> LoadSummary:
    """Compare what the job wrote with the plan, and with the logs themselves: a log must end right behind the rows written and nothing else."""
    guarded(bench, ticket, at_least=Phase.CREATED, before=Phase.OFFSETS_SET)
    work = _work(stored_plan(bench, ticket))
    loaded = () if result_key is None else bench.notes.read_key(RestoreResult, result_key).partitions
    by_partition = {TopicPartition(done.topic, done.partition): done for done in loaded}
    ends = bench.cluster.high_watermarks(list(work))
    starts = bench.cluster.log_starts(list(work))
    for tp, load in work.items():
        rows = load.rows
        done = by_partition.get(tp)
        if (done.rows if done else 0) != rows or ends[tp] - starts[tp] != rows:
            raise Damaged(
                f"{tp} should hold {rows} rows; the job wrote {done.rows if done else 0}, the log holds [{starts[tp]}, {ends[tp]})",
                next_step="somebody else wrote to it: stop whoever did, then load again; the topic is compared, or created again",
                topic=tp.topic,
                partition=tp.partition,
            )
    note(bench, ticket, Phase.LOADED)
    return LoadSummary(
        topics=len({tp.topic for tp in work}),
        partitions=len(work),
        rows=sum(done.rows for done in loaded),
        present=sum(done.present for done in loaded),
        workers=_workers(loaded),
    )


def _workers(loaded: tuple[PartitionLoaded, ...]) -> tuple[str, ...]:
    return tuple(sorted({done.worker for done in loaded if done.rows}))


def plan_verify(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that compares savepoint and topics, row by row and key by key."""
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
    work = _work(planned)
    ends, starts = bench.cluster.high_watermarks(list(work)), bench.cluster.log_starts(list(work))
    partitions = tuple(
        PartitionToVerify(
            topic=tp.topic, partition=tp.partition, target_topic=tp.topic, start=starts[tp], end=ends[tp], files=load.files, cut=load.cut
        )
        for tp, load in work.items()
    )
    keyed = tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)
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
    if result_key is None:
        raise Damaged("no verification ran", next_step="clear the verification task and run it again")
    result = bench.notes.read_key(VerifyResult, result_key)
    missing = set(_work(planned)) - {TopicPartition(found.topic, found.partition) for found in result.partitions}
    unequal = [f"{found.topic}-{found.partition}" for found in result.partitions if not found.equal]
    differing = [
        f"{store.topic}: {store.keys_different} keys, such as {', '.join(store.examples[:3])}"
        for store in result.stores
        if store.keys_different
    ]
    if missing or unequal or differing:
        raise Damaged(
            f"restored topics differ from savepoint {planned.savepoint_id}: not compared {sorted(map(str, missing))[:5]}, "
            f"rows differ in {unequal[:5]}, keys differ in {differing[:5]}",
            next_step="do not start the application; restore again, and verify the repository if it repeats",
            partitions=unequal,
        )
    rows = sum(found.loaded_rows for found in result.partitions)
    keys = sum(store.keys_compared for store in result.stores)
    keyed = sum(topic.rows for topic in planned.create if topic.role is TopicRole.CHANGELOG)
    if (planned.rows and not rows) or (keyed and not keys):
        raise Damaged("the verification compared nothing", next_step="look at the Spark job's log", rows=rows, keys=keys)
    summary = VerifySummary(partitions=result.partitions, stores=result.stores, rows_compared=rows, keys_compared=keys)
    bench.notes.write(ticket.restore_id, VERIFIED, summary)
    note(bench, ticket, Phase.VERIFIED)
    return summary


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
