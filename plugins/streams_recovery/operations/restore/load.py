"""Topics of a restore: created empty and under hold, loaded by a job, and checked against the logs. Those that an interrupted load has left are continued, or
begun again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import ApplicationRunning, Damaged, OffsetsUnstable, PrefixDiffers, TargetNotEmpty
from streams_recovery.core.jobs.spec import NO_JOB, JobFailure, JobPlan, PartitionToLoad, RestoreResult, failure_key
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, RestoreScope, created_by, reached
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.restore.parts.interval import deferred
from streams_recovery.core.restore.plan import RestorePlan
from streams_recovery.core.restore.planned import PartitionLoad, TopicToCreate
from streams_recovery.core.restore.proofs import LoadAction, LoadProgress, next_action, topic_state
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold, restore_joined
from streams_recovery.core.waiting import poll
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import require_lock
from streams_recovery.operations.restore.checks import check_same_inputs, check_same_places, check_same_targets, spans
from streams_recovery.operations.restore.in_place import set_aside
from streams_recovery.operations.restore.inputs_there import require_nothing_new
from streams_recovery.operations.restore.move import require_entered
from streams_recovery.operations.restore.open import guarded, note, stored_plan
from streams_recovery.operations.restore.placing import restore_spec
from streams_recovery.operations.restore.plan import plan
from streams_recovery.operations.restore.rebuild_plan import check_still_planned
from streams_recovery.operations.restore.values import LoadSummary, PrepareSummary, RestoreTicket
from streams_recovery.storage.json_object import read_value

LOAD_SPEC = "load-spec"
LOAD_RESULT: Final = "load-result"
STRANGERS: Final = (
    "find out who created them or wrote to them, and stop that; copy these records if they are needed, delete the topics, and resume this "
    "restore"
)
LOAD_AGAIN = (
    "another producer wrote to it: stop that producer, then load again; the topic is compared, and created again where its records differ, "
    "unless it is an input or a global"
)
# Topics that are asked for together, and written down when all of them are there: few enough that a kill leaves little unknown.
_AT_ONCE: Final = 50
# Longer than a job whose lock was taken needs to notice it and to end.
STILL_SECONDS: Final = 6.0
_STILL_PATIENCE: Final = 120.0


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
    require_nothing_new(recovery, (planned if reached(written).rank < Phase.DESTROYING.rank else current).part.replaced_ends)
    making = [step for step in planned.create if step.name not in kept]
    # Which topics they are, before the lock is proven and not behind it: who has resumed this restore meanwhile has made others of these names.
    existing = topic_ids(recovery, [*(step.name for step in making), *(gone.name for gone in current.delete)])
    # To look took a while. Whoever has ended this run meanwhile has started the application again, and reads in the journal that nothing was destroyed: so once
    # before the entry, and once behind it.
    require_lock(recovery, ticket)
    note(recovery, ticket, Phase.DESTROYING)
    require_lock(recovery, ticket)
    recovery.cluster.delete_exactly(existing)
    _create_topics(recovery, ticket, making, Phase.DESTROYING)
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
    filled = planned.part.filled
    making = [step for step in planned.create if step.name not in filled]
    existing = {step.name: step.replaces for step in current.create if step.replaces is not None}
    require_lock(recovery, ticket)
    recovery.cluster.delete_exactly(existing)
    # Nothing says yet that this restore has begun: what it makes before a kill, nobody would find.
    _create_topics(recovery, ticket, making, Phase.CREATED, at_once=1)
    for name, topic_id in filled.items():
        _hold_topic(recovery, ticket, name, topic_id)
    note(recovery, ticket, Phase.CREATED)
    return PrepareSummary(created=tuple(step.name for step in making), replaced=tuple(sorted(existing)))


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
    """Empty topics that an attempt of this restore may have created right before it died, without a record of them."""
    if reached(written).rank < Phase.DESTROYING.rank:
        return set()
    existing = recovery.cluster.describe_topics([step.name for step in planned.create])
    return set(existing) - set(spans(recovery, existing))


def check_down(recovery: RecoveryContext, planned: RestorePlan | None = None) -> None:
    """Raise ``ApplicationRunning`` naming the members of a group that is not empty. Copies of single topics are loaded while it runs: it does not read them."""
    if planned is not None and planned.part.scope is RestoreScope.COPIES:
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
    if not planned.part.loads:
        return NO_JOB
    standing = {found.tp: found for found in _standing_now(recovery, ticket, planned, written)}
    return load_job(recovery, ticket, work_of(planned), standing, deferred(planned))


def load_job(
    recovery: RecoveryContext,
    ticket: RestoreTicket,
    work: Mapping[TopicPartition, PartitionLoad],
    standing: Mapping[TopicPartition, LoadProgress],
    limits: Mapping[TopicPartition, int],
) -> JobPlan:
    """The specification of the job that writes what is missing of ``work``; of partitions with a limit, their first rows up to that."""
    ids = topic_ids(recovery, {tp.topic for tp in work})
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
        volume=JobVolume.of((partition.rows, partition.payload_bytes) for partition in partitions),
    )


def expected_load(recovery: RecoveryContext, ticket: RestoreTicket) -> JobVolume | None:
    """The volume of the load that the plan has, None where nothing is loaded."""
    work = work_of(stored_plan(recovery, ticket))
    return JobVolume.of((load.rows, load.payload_bytes) for load in work.values() if load.rows) if work else None


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
    """Summarize what a job has written. It must be as many rows as are expected, and all that is in the logs. Raises ``Damaged``."""
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
        workers=tuple(sorted({done.worker for done in loaded if done.rows})),
        result=result,
    )


def _create_topics(
    recovery: RecoveryContext, ticket: RestoreTicket, steps: Sequence[TopicToCreate], phase: Phase, *, at_once: int = _AT_ONCE
) -> None:
    """Create topics empty, under hold where the plan has one for them, and write down which ones they are, so many ``at_once``."""
    for at in range(0, len(steps), at_once):
        several = steps[at : at + at_once]
        made = recovery.cluster.create_topics(
            {step.name: (len(step.partitions), step.replication_factor, step.held_config) for step in several}
        )
        # Only now there are ids to write down. An attempt that dies before leaves empty topics, and the next one replaces them.
        held = [step.name for step in several if step.held_config != step.final_config]
        if held:
            holds = tuple(TopicHold(topic=name, topic_id=made[name].topic_id) for name in held)
            topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, ticket.restore_id, RESTORE_MARK, holds)
        note(recovery, ticket, phase, created=tuple(CreatedTopic(topic=step.name, topic_id=made[step.name].topic_id) for step in several))


def _hold_topic(recovery: RecoveryContext, ticket: RestoreTicket, name: str, topic_id: str) -> None:
    """Put a topic under hold that is there already, of which some partitions are loaded."""
    hold = TopicHold(topic=name, topic_id=topic_id)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, ticket.restore_id, RESTORE_MARK, (hold,))
    recovery.cluster.change_configs([name], partial(restore_joined, today=recovery.clock() // DAY_MS))


def work_of(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    """Every partition that is loaded. Topics that a rebuild without an archive creates are empty, and filled by the application."""
    if not planned.part.loads:
        return {}
    return {TopicPartition(topic.name, part.partition): part for topic in planned.create for part in topic.partitions}


def rows_at_first(planned: RestorePlan) -> dict[TopicPartition, int]:
    """Records of each partition that are loaded before the application starts."""
    return {tp: load.rows for tp, load in work_of(planned).items()} | deferred(planned)


def load_progress(
    recovery: RecoveryContext,
    rows: Mapping[TopicPartition, int],
    *,
    still_seconds: float = STILL_SECONDS,
    patience: float = _STILL_PATIENCE,
) -> dict[TopicPartition, LoadProgress]:
    """Each partition to which so many ``rows`` belong, as it is, if there is one. Where records are already, only once all ends stood still for
    ``still_seconds``: a worker of an earlier attempt may live. Raises ``OffsetsUnstable`` when they do not within ``patience`` seconds.
    """
    ends = _ends(recovery, list(rows))
    if any(ends.values()):
        ends = _settled(recovery, ends, still_seconds, patience)
    starts = recovery.cluster.log_starts(list(ends))
    return {tp: LoadProgress(tp=tp, start=starts[tp], end=end, rows=rows[tp]) for tp, end in ends.items()}


def _ends(recovery: RecoveryContext, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    existing = recovery.cluster.describe_topics({tp.topic for tp in partitions})
    wanted = [tp for tp in partitions if tp.topic in existing and tp.partition < existing[tp.topic].partitions]
    return recovery.cluster.high_watermarks(wanted)


def _settled(
    recovery: RecoveryContext, ends: dict[TopicPartition, int], still_seconds: float, patience: float
) -> dict[TopicPartition, int]:
    latest = [ends]

    def still() -> dict[TopicPartition, int] | None:
        # Not as the interval of the poll, which cuts its last one short: two looks count only when they are this far apart.
        time.sleep(still_seconds)
        now = _ends(recovery, list(ends))
        same = now == latest[-1]
        latest.append(now)
        return now if same else None

    settled = poll(still, seconds=patience, interval=0, what=f"the ends of {len(ends)} partitions to stand still")
    if settled is None:
        moving = sorted(str(tp) for tp, end in latest[-1].items() if end != latest[-2].get(tp))
        raise OffsetsUnstable(
            f"a producer still writes to {', '.join(moving[:5])}",
            next_step="end the Spark job of the run that failed, then run this step again",
            topics=moving,
        )
    return settled


def _standing_now(
    recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]
) -> list[LoadProgress]:
    """The load progress of all partitions, after ``_begin_again`` of those that the restore makes. Raises ``TargetNotEmpty`` too where partitions of a topic
    that was there before have more records than are loaded, or are another topic's by now.
    """
    filled = planned.part.filled
    if not filled:
        return _begin_again(recovery, ticket, planned, written)
    made = replace(planned, create=tuple(step for step in planned.create if step.name not in filled))
    rows = {tp: count for tp, count in rows_at_first(planned).items() if tp.topic in filled}
    found = load_progress(recovery, rows)
    ids = topic_ids(recovery, filled)
    strangers = sorted(
        str(tp)
        for tp, count in rows.items()
        if tp not in found
        or ids.get(tp.topic) != filled[tp.topic]
        or found[tp].start != planned.part.begins[tp]
        or found[tp].end - found[tp].start > count
    )
    if strangers:
        raise TargetNotEmpty(
            f"partitions that this restore of {recovery.application_id} loads hold records that are not of it: {', '.join(strangers)}",
            next_step="nothing was written to them; stop the producers of these topics, and bring the partitions back under another name",
            topics=strangers,
        )
    return [*(_begin_again(recovery, ticket, made, written) if made.create else []), *found.values()]


def _begin_again(
    recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]
) -> list[LoadProgress]:
    """Delete and create again every topic whose records cannot be the beginning of what belongs there, or were compared and are not. Returns how
    all partitions stand then. Raises ``TargetNotEmpty`` for topics with records that this restore did not create, and for inputs and globals: who
    writes to those may have been waiting for them.
    """
    standing = load_progress(recovery, rows_at_first(planned))
    ids = topic_ids(recovery, [step.name for step in planned.create])
    refused, created = refused_topics(recovery, ticket), created_by(written)
    again, strangers = [], []
    for step in planned.create:
        parts = [standing.get(TopicPartition(step.name, part.partition)) for part in step.partitions]
        records = sum(part.end - part.start for part in parts if part)
        kind = topic_state(ids.get(step.name), created.get(step.name, ()), records)
        differs = ids.get(step.name) in refused or any(part is None or part.present is None for part in parts)
        what = next_action(kind, records=records, differs=differs, others_write=step.name in planned.written_by_others)
        if what is LoadAction.REFUSE:
            strangers.append(step.name)
        elif what is LoadAction.BEGIN_AGAIN:
            again.append(step)
    if strangers:
        raise TargetNotEmpty(
            f"topics of {recovery.application_id} hold records that are not of this restore: {', '.join(strangers)}",
            next_step=STRANGERS,
            topics=strangers,
        )
    if again:
        # Ends were waited for: the run may be over by now, and another one may load.
        require_lock(recovery, ticket)
    recovery.cluster.delete_exactly({step.name: ids[step.name] for step in again if step.name in ids})
    _create_topics(recovery, ticket, again, Phase.CREATED)
    rows = {TopicPartition(step.name, part.partition): part.rows for step in again for part in step.partitions}
    return [*(standing | {tp: LoadProgress(tp=tp, start=0, end=0, rows=count) for tp, count in rows.items()}).values()]


def topic_ids(recovery: RecoveryContext, names: Collection[str]) -> dict[str, str]:
    """Ids of those of the topics that are there, by name."""
    return {name: topic.topic_id for name, topic in recovery.cluster.describe_topics(list(names)).items()}


def refused_topics(recovery: RecoveryContext, ticket: RestoreTicket) -> set[str]:
    """Ids of topics whose records an earlier attempt compared with the savepoint and found different."""
    stem = failure_key(recovery.layout.work(ticket.restore_id, LOAD_RESULT)).removesuffix("json")
    keys = [key for key in recovery.repository.keys(stem.rpartition("/")[0] + "/") if key.startswith(stem)]
    failures = [read_value(recovery.repository, JobFailure, key, most_bytes=MOST_BYTES_OF_ENTRY) for key in keys]
    return {failure.facts.get("topic_id", "") for failure in failures if failure.error == PrefixDiffers.__name__}
