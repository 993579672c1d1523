"""Internal topics: created, loaded and compared, each step checked before the next."""

from __future__ import annotations

from streams_recovery import holds
from streams_recovery.core.errors import ApplicationRunning, Damaged
from streams_recovery.core.hold import RESTORE_HOLD, HoldPurpose, TopicHold
from streams_recovery.core.jobs import (
    PartitionLoaded,
    PartitionToLoad,
    PartitionToVerify,
    RestoreResult,
    RestoreSpec,
    VerifyResult,
    VerifySpec,
)
from streams_recovery.core.journal import CreatedTopic, Phase, created_by
from streams_recovery.core.manifest import SegmentFile
from streams_recovery.core.model import TopicPartition, TopicRole
from streams_recovery.core.plan import RestorePlan, TopicToCreate
from streams_recovery.restores.opening import guarded, note, stored_plan
from streams_recovery.restores.planning import plan
from streams_recovery.restores.values import LoadSummary, PrepareSummary, RestoreTicket, VerifySummary
from streams_recovery.savepoints.values import JobPlan
from streams_recovery.workbench import Workbench

LOAD_SPEC, LOAD_RESULT, VERIFY_SPEC, VERIFY_RESULT = "load-spec", "load-result", "verify-spec", "verify-result"


def prepare(bench: Workbench, ticket: RestoreTicket) -> PrepareSummary:
    """Create every internal topic empty and under hold. Repeating it begins again from empty topics: what an earlier attempt loaded is known by
    its topic ids and deleted, because loading twice would double it. Topics of anybody else that hold records are refused.
    """
    written = guarded(bench, ticket, at_least=Phase.STOPPED, before=Phase.OFFSETS_SET)
    _check_down(bench)
    mine = created_by(written)
    steps = plan(bench, ticket.request, mine=mine).create
    note(bench, ticket, Phase.DESTROYING)
    existing = bench.cluster.describe_topics([step.name for step in steps])
    bench.cluster.delete_topics(sorted(existing))
    for step in steps:
        created = bench.cluster.create_topic(
            step.name, partitions=len(step.partitions), replication_factor=step.replication_factor, config=step.held_config
        )
        hold = TopicHold(topic=step.name, topic_id=created.topic_id, previous={key: step.final_config.get(key) for key in _held_keys(step)})
        holds.record(bench, "applied", HoldPurpose.RESTORE, ticket.restore_id, (hold,))
        note(bench, ticket, Phase.DESTROYING, created=(CreatedTopic(topic=step.name, topic_id=created.topic_id),))
    note(bench, ticket, Phase.CREATED)
    return PrepareSummary(created=tuple(step.name for step in steps), replaced=tuple(sorted(existing)))


def _held_keys(step: TopicToCreate) -> set[str]:
    return set(RESTORE_HOLD) | (set(step.final_config) - set(step.held_config))


def _check_down(bench: Workbench) -> None:
    group = bench.groups.describe(bench.application_id)
    if not group.empty:
        members = ", ".join(f"{member.client_id} at {member.host}" for member in group.members) or group.state
        raise ApplicationRunning(
            f"{bench.application_id} is running: {members}", next_step="stop it and run this restore again", members=members
        )


def plan_load(bench: Workbench, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that loads the topics."""
    guarded(bench, ticket, at_least=Phase.CREATED, before=Phase.LOADED)
    work = _work(stored_plan(bench, ticket))
    ends = bench.cluster.high_watermarks(list(work))
    partitions = tuple(
        PartitionToLoad(topic=tp.topic, partition=tp.partition, first_offset=ends[tp], files=files) for tp, files in work.items() if files
    )
    if not partitions:
        return JobPlan(spec_key=None, result_key=None, ranges=0, offsets=0)
    spec_key = bench.notes.write(ticket.restore_id, LOAD_SPEC, RestoreSpec(application_id=bench.application_id, partitions=partitions))
    return JobPlan(
        spec_key=spec_key,
        result_key=bench.notes.reserve(ticket.restore_id, LOAD_RESULT),
        ranges=len(partitions),
        offsets=sum(file.rows for partition in partitions for file in partition.files),
    )


def _work(planned: RestorePlan) -> dict[TopicPartition, tuple[SegmentFile, ...]]:
    return {TopicPartition(topic.name, part.partition): part.files for topic in planned.create for part in topic.partitions}


def check_load(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> LoadSummary:
    """Compare what the job wrote with the plan, and with the logs themselves: a log must end right behind the rows written and nothing else."""
    guarded(bench, ticket, at_least=Phase.CREATED, before=Phase.OFFSETS_SET)
    work = _work(stored_plan(bench, ticket))
    loaded = () if result_key is None else bench.notes.read_key(RestoreResult, result_key).partitions
    by_partition = {TopicPartition(done.topic, done.partition): done for done in loaded}
    ends = bench.cluster.high_watermarks(list(work))
    starts = bench.cluster.log_starts(list(work))
    for tp, files in work.items():
        rows = sum(file.rows for file in files)
        done = by_partition.get(tp)
        if (done.rows if done else 0) != rows or ends[tp] - starts[tp] != rows:
            raise Damaged(
                f"{tp} should hold {rows} rows; the job wrote {done.rows if done else 0}, the log holds [{starts[tp]}, {ends[tp]})",
                next_step="somebody else wrote to it, or the job was interrupted: clear the task that creates the topics and go on from there",
                topic=tp.topic,
                partition=tp.partition,
            )
    note(bench, ticket, Phase.LOADED)
    return LoadSummary(
        topics=len({tp.topic for tp in work}),
        partitions=len(work),
        rows=sum(done.rows for done in loaded),
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
        PartitionToVerify(topic=tp.topic, partition=tp.partition, target_topic=tp.topic, start=starts[tp], end=ends[tp], files=files)
        for tp, files in work.items()
    )
    keyed = tuple(topic.name for topic in planned.create if topic.role is TopicRole.CHANGELOG)
    spec = VerifySpec(application_id=bench.application_id, partitions=partitions, keyed=keyed)
    return JobPlan(
        spec_key=bench.notes.write(ticket.restore_id, VERIFY_SPEC, spec),
        result_key=bench.notes.reserve(ticket.restore_id, VERIFY_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.end - partition.start for partition in partitions),
    )


def check_verify(bench: Workbench, ticket: RestoreTicket, result_key: str | None) -> VerifySummary:
    """Raise ``Damaged`` unless every planned partition was compared and equal, and every changelog with rows had keys to compare."""
    guarded(bench, ticket, at_least=Phase.LOADED, before=Phase.STARTED)
    planned = stored_plan(bench, ticket)
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
    if planned.rows and not (rows and keys):
        raise Damaged("the verification compared nothing", next_step="look at the Spark job's log", rows=rows, keys=keys)
    note(bench, ticket, Phase.VERIFIED)
    return VerifySummary(partitions=result.partitions, stores=result.stores, rows_compared=rows, keys_compared=keys)
