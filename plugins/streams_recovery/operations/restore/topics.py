"""Topics of a restore: created empty and under hold, and begun again where an interrupted load cannot be continued."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from streams_recovery.core.bounded_json import MOST_BYTES_OF_ENTRY
from streams_recovery.core.errors import OffsetsUnstable, PrefixDiffers, TargetNotEmpty
from streams_recovery.core.jobs.spec import JobFailure, failure_key
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import CreatedTopic, JournalEntry, Phase, created_by
from streams_recovery.core.restore.load_progress import LoadAction, LoadProgress, next_action, topic_state
from streams_recovery.core.restore.plan import PartitionLoad, RestorePlan, TopicToCreate
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK
from streams_recovery.core.topic_holds.log import HoldPurpose, TopicHold, restore_joined
from streams_recovery.core.waiting import poll
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.restore.open import note
from streams_recovery.operations.restore.values import RestoreTicket
from streams_recovery.storage.json_object import read_value

LOAD_RESULT: Final = "load-result"
STRANGERS: Final = (
    "find out who created them or wrote to them, and stop that; copy these records if they are needed, delete the topics, and resume this "
    "restore"
)
# Topics that are asked for together, and written down when all of them are there: few enough that a kill leaves little unknown.
_AT_ONCE: Final = 50
# Longer than a job whose lock was taken needs to notice it and to end.
STILL_SECONDS: Final = 6.0
_STILL_PATIENCE: Final = 120.0
_DAY_MS: Final = 86_400_000


def create_topics(
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


def hold_topic(recovery: RecoveryContext, ticket: RestoreTicket, name: str, topic_id: str) -> None:
    """Put a topic under hold that is there already, of which some partitions are loaded."""
    hold = TopicHold(topic=name, topic_id=topic_id)
    topic_holds.record(recovery, "applied", HoldPurpose.RESTORE, ticket.restore_id, RESTORE_MARK, (hold,))
    recovery.cluster.change_configs([name], partial(restore_joined, today=recovery.clock() // _DAY_MS))


def work_of(planned: RestorePlan) -> dict[TopicPartition, PartitionLoad]:
    """Every partition that is loaded. What a rebuild without an archive makes is empty, and filled by the application."""
    if not planned.loads:
        return {}
    return {TopicPartition(topic.name, part.partition): part for topic in planned.create for part in topic.partitions}


def rows_at_first(planned: RestorePlan) -> dict[TopicPartition, int]:
    """Records of each partition that are loaded before the application starts."""
    return {tp: load.rows for tp, load in work_of(planned).items()} | planned.deferred


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


def standing_now(
    recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]
) -> list[LoadProgress]:
    """How all partitions stand, after ``begin_again`` of those that the restore makes. Raises ``TargetNotEmpty`` too where partitions of a topic that was there
    before have more records than are loaded, or are another topic's by now.
    """
    filled = planned.single.filled if planned.single is not None else {}
    if not filled or planned.single is None:
        return begin_again(recovery, ticket, planned, written)
    made = replace(planned, create=tuple(step for step in planned.create if step.name not in filled))
    rows = {tp: count for tp, count in rows_at_first(planned).items() if tp.topic in filled}
    found = load_progress(recovery, rows)
    ids = {name: topic.topic_id for name, topic in recovery.cluster.describe_topics(list(filled)).items()}
    strangers = sorted(
        str(tp)
        for tp, count in rows.items()
        if tp not in found
        or ids.get(tp.topic) != filled[tp.topic]
        or found[tp].start != planned.single.begins[tp]
        or found[tp].end - found[tp].start > count
    )
    if strangers:
        raise TargetNotEmpty(
            f"partitions that this restore of {recovery.application_id} loads hold records that are not of it: {', '.join(strangers)}",
            next_step="nothing was written to them; stop the producers of these topics, and bring the partitions back under another name",
            topics=strangers,
        )
    return [*(begin_again(recovery, ticket, made, written) if made.create else []), *found.values()]


def begin_again(
    recovery: RecoveryContext, ticket: RestoreTicket, planned: RestorePlan, written: tuple[JournalEntry, ...]
) -> list[LoadProgress]:
    """Delete and create again every topic whose records cannot be the beginning of what belongs there, or were compared and are not. Returns how
    all partitions stand then. Raises ``TargetNotEmpty`` for topics with records that this restore did not create, and for inputs and globals: who
    writes to those may have been waiting for them.
    """
    standing = load_progress(recovery, rows_at_first(planned))
    ids = {name: topic.topic_id for name, topic in recovery.cluster.describe_topics([step.name for step in planned.create]).items()}
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
    recovery.cluster.delete_topics([step.name for step in again if step.name in ids])
    create_topics(recovery, ticket, again, Phase.CREATED)
    rows = {TopicPartition(step.name, part.partition): part.rows for step in again for part in step.partitions}
    return [*(standing | {tp: LoadProgress(tp=tp, start=0, end=0, rows=count) for tp, count in rows.items()}).values()]


def refused_topics(recovery: RecoveryContext, ticket: RestoreTicket) -> set[str]:
    """Ids of topics whose records an earlier attempt compared with the savepoint and found different."""
    stem = failure_key(recovery.layout.work(ticket.restore_id, LOAD_RESULT)).removesuffix("json")
    keys = [key for key in recovery.repository.keys(stem.rpartition("/")[0] + "/") if key.startswith(stem)]
    failures = [read_value(recovery.repository, JobFailure, key, most_bytes=MOST_BYTES_OF_ENTRY) for key in keys]
    return {failure.facts.get("topic_id", "") for failure in failures if failure.error == PrefixDiffers.__name__}
