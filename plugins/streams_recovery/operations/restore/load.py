"""Topics of a restore: created and loaded, and what was written checked against the logs."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.errors import ApplicationRunning, Damaged, TargetNotEmpty
from streams_recovery.core.jobs.spec import NO_JOB, JobPlan, PartitionLoaded, PartitionToLoad, RestoreResult
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import JournalEntry, Phase, created_by, reached
from streams_recovery.core.restore.load_progress import LoadProgress
from streams_recovery.core.restore.plan import PartitionLoad, RestorePlan
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.in_place import set_aside
from streams_recovery.operations.restore.inputs_there import require_nothing_new
from streams_recovery.operations.restore.job_specs import restore_spec
from streams_recovery.operations.restore.move import require_entered
from streams_recovery.operations.restore.open import guarded, note, stored_plan
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.rebuild_checks import check_still_planned
from streams_recovery.operations.restore.target_checks import check_same_inputs, check_same_places, check_same_targets, spans
from streams_recovery.operations.restore.topics import (
    LOAD_RESULT,
    STRANGERS,
    create_topics,
    hold_topic,
    rows_at_first,
    standing_now,
    work_of,
)
from streams_recovery.operations.restore.values import LoadSummary, PrepareSummary, RestoreTicket

LOAD_SPEC = "load-spec"
LOAD_AGAIN = (
    "another producer wrote to it: stop that producer, then load again; the topic is compared, and created again where its records differ, "
    "unless it is an input or a global"
)


def prepare(recovery: RecoveryContext, ticket: RestoreTicket) -> PrepareSummary:
    """Delete what the plan replaces, and create every topic empty and under hold. Repeating it begins again from empty topics: what an earlier attempt
    loaded is known by its topic ids and deleted. Anybody else's topics are refused. Inputs and globals that it made and that hold records stay as they
    are, for the load to go on behind; ``TargetNotEmpty`` is raised for those when nothing can have been loaded yet.
    """
    written = guarded(recovery, ticket, at_least=Phase.SAVED, before=Phase.OFFSETS_SET)
    check_down(recovery)
    planned = stored_plan(recovery, ticket)
    current = _still(recovery, ticket, planned, written)
    set_aside(recovery, ticket, planned, current)
    kept = _filled(recovery, planned, written)
    if ticket.before is not None:
        require_entered(recovery, ticket)
    # Written before the first deletion: after a kill too, nobody may start the application on what is left.
    # Once it has begun, inputs that it replaces may be its own by now; of those that are not, the plan of this moment has the ends.
    require_nothing_new(recovery, planned.move if reached(written).rank < Phase.DESTROYING.rank else current.move)
    note(recovery, ticket, Phase.DESTROYING)
    making = [step for step in planned.create if step.name not in kept]
    existing = recovery.cluster.describe_topics([*(step.name for step in making), *(gone.name for gone in current.delete)])
    recovery.cluster.delete_topics(sorted(existing))
    create_topics(recovery, ticket, making, Phase.DESTROYING)
    note(recovery, ticket, Phase.CREATED)
    return PrepareSummary(created=tuple(step.name for step in making), replaced=tuple(sorted(existing)))


def prepare_topics(recovery: RecoveryContext, ticket: RestoreTicket) -> PrepareSummary:
    """Create single topics empty and under hold. Under their own names an empty topic of the cluster is replaced; one that holds a record by now is
    refused. Those of which only some partitions are brought back stay, and are held.
    """
    guarded(recovery, ticket, at_least=Phase.OPENED, before=Phase.CREATED)
    planned = stored_plan(recovery, ticket)
    check_down(recovery, planned)
    current = plan(recovery, ticket.request.pinned(recovery, planned))
    check_same_targets(planned, current)
    filled = planned.single.filled if planned.single else {}
    making = [step for step in planned.create if step.name not in filled]
    existing = sorted(step.name for step in current.create if step.replaces is not None)
    recovery.cluster.delete_topics(existing)
    # Nothing says yet that this restore has begun: what it makes before a kill, nobody would find.
    create_topics(recovery, ticket, making, Phase.CREATED, at_once=1)
    for name, topic_id in filled.items():
        hold_topic(recovery, ticket, name, topic_id)
    note(recovery, ticket, Phase.CREATED)
    return PrepareSummary(created=tuple(step.name for step in making), replaced=tuple(existing))


def _filled(recovery: RecoveryContext, planned: RestorePlan, written: tuple[JournalEntry, ...]) -> set[str]:
    """Inputs and globals that an earlier attempt of this restore has made, and that hold records by now."""
    mine = created_by(written)
    there = recovery.cluster.describe_topics(planned.written_by_others & set(mine))
    filled = spans(recovery, {name: found for name, found in there.items() if found.topic_id in mine[name]})
    if filled and not any(entry.phase is Phase.CREATED for entry in written):
        raise TargetNotEmpty(
            f"inputs that this restore of {recovery.application_id} has made hold records that it did not load: {', '.join(sorted(filled))}",
            next_step=STRANGERS,
            topics=filled,
        )
    return set(filled)


def _still(recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]) -> RestorePlan:
    """The plan as it is now, proven to delete nothing that was not shown."""
    mine = created_by(written)
    if planned.from_input:
        begun = reached(written).rank >= Phase.DESTROYING.rank
        check_still_planned(recovery, planned, {step.name: mine.get(step.name, set()) for step in planned.create} if begun else {})
        return planned
    current = plan(recovery, ticket.request.pinned(recovery, planned), mine=mine)
    check_same_targets(planned, current, empty=_created_unnoted(recovery, written, planned))
    check_same_inputs(planned, current)
    check_same_places(planned, current)
    return current


def _created_unnoted(recovery: RecoveryContext, written: tuple[JournalEntry, ...], planned: RestorePlan) -> set[str]:
    """Topics that an attempt of this restore may have created right before it died, so that it could not write down which they are."""
    if reached(written).rank < Phase.DESTROYING.rank:
        return set()
    existing = recovery.cluster.describe_topics([step.name for step in planned.create])
    return set(existing) - set(spans(recovery, existing))


def check_down(recovery: RecoveryContext, planned: RestorePlan | None = None) -> None:
    """Raise ``ApplicationRunning`` naming the members of a group that is not empty. Copies of single topics are loaded while it runs: it does not read them."""
    if planned is not None and planned.single is not None and not planned.single.in_place:
        return
    group = recovery.groups.describe(recovery.application_id)
    if not group.empty:
        members = ", ".join(f"{member.client_id} at {member.host}" for member in group.members) or group.state
        raise ApplicationRunning(
            f"{recovery.application_id} is running: {members}", next_step="stop it and run this restore again", members=members
        )


def plan_load(recovery: RecoveryContext, ticket: RestoreTicket) -> JobPlan:
    """The specification of the Spark job that loads the topics. Where an earlier attempt failed, the job goes on behind the records it left, once
    they were compared; topics of which that cannot be true are created again here.
    """
    written = guarded(recovery, ticket, at_least=Phase.CREATED, before=Phase.LOADED)
    planned = stored_plan(recovery, ticket)
    check_down(recovery, planned)
    if not planned.loads:
        return NO_JOB
    standing = {found.tp: found for found in standing_now(recovery, ticket, planned, written)}
    return load_job(recovery, ticket, work_of(planned), standing, planned.deferred)


def load_job(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    work: Mapping[TopicPartition, PartitionLoad],
    standing: Mapping[TopicPartition, LoadProgress],
    limits: Mapping[TopicPartition, int],
) -> JobPlan:
    """The specification of the job that writes what is missing of ``work``; of partitions with a limit, their first rows up to that."""
    ids = {name: topic.topic_id for name, topic in recovery.cluster.describe_topics({tp.topic for tp in work}).items()}
    partitions = tuple(
        PartitionToLoad(
            tp=tp,
            first_offset=standing[tp].start,
            files=load.files,
            present=standing[tp].end - standing[tp].start,
            topic_id=ids[tp.topic],
            cut=load.cut,
            limit=limits.get(tp),
        )
        for tp, load in work.items()
        if load.files and limits.get(tp) != 0
    )
    if not partitions:
        return NO_JOB
    spec = recovery.artifacts.write(ticket.restore_id, LOAD_SPEC, restore_spec(recovery, ticket, partitions))
    return JobPlan(
        spec=spec,
        result_key=recovery.artifacts.answer(spec.key, LOAD_RESULT),
        ranges=len(partitions),
        offsets=sum(partition.rows - partition.present for partition in partitions),
    )


def check_load(recovery: RecoveryContext, ticket: RestoreTicket, result: ArtifactRef | None) -> LoadSummary:
    """Compare what the job wrote with the plan, and with the logs themselves: a log must end right behind the rows written and nothing else."""
    guarded(recovery, ticket, at_least=Phase.CREATED, before=Phase.OFFSETS_SET)
    planned = stored_plan(recovery, ticket)
    summary = check_written(recovery, rows_at_first(planned), result)
    note(recovery, ticket, Phase.LOADED)
    return summary


def check_written(
    recovery: RecoveryContext, expected: Mapping[TopicPartition, int], result: ArtifactRef | None, *, next_step: str = LOAD_AGAIN
) -> LoadSummary:
    """What a job has written, which must be as many rows as are expected, and all that is in the logs. Raises ``Damaged``."""
    loaded = () if result is None else recovery.artifacts.read(RestoreResult, result).partitions
    by_partition = {done.tp: done for done in loaded}
    ends = recovery.cluster.high_watermarks(list(expected))
    starts = recovery.cluster.log_starts(list(expected))
    for tp, rows in expected.items():
        done = by_partition.get(tp)
        if (done.rows if done else 0) != rows or ends[tp] - starts[tp] != rows:
            raise Damaged(
                f"{tp} should hold {rows} rows; the job wrote {done.rows if done else 0}, the log holds [{starts[tp]}, {ends[tp]})",
                next_step=next_step,
                topic=tp.topic,
                partition=tp.partition,
                expected=rows,
                written=done.rows if done else 0,
                log_start=starts[tp],
                log_end=ends[tp],
            )
    return LoadSummary(
        topics=len({tp.topic for tp in expected}),
        partitions=len(expected),
        rows=sum(done.rows for done in loaded),
        present=sum(done.present for done in loaded),
        workers=_workers(loaded),
        result=result,
    )


def _workers(loaded: tuple[PartitionLoaded, ...]) -> tuple[str, ...]:
    return tuple(sorted({done.worker for done in loaded if done.rows}))
