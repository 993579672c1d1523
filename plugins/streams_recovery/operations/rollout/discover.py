"""The state of both applications, as it is now. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams_recovery.application.port import InstanceState, closed_cleanly
from streams_recovery.config.sandbox_application import live
from streams_recovery.core.errors import OffsetsGone, Refused
from streams_recovery.core.kafka_types import Guarantee, TopicPartition
from streams_recovery.core.repository.ownership import OwnershipEntry, ReadUpTo, Role, role_of
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.rollout.cutover import Origin, Pair, Side
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import restore
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.discovery import input_partitions, repartition_partitions
from streams_recovery.operations.lag import measure, next_records
from streams_recovery.operations.unfinished import unfinished_restore
from streams_recovery.storage.append_log import AppendLog

# Offsets are no records: markers of transactions take some. So many are read to tell the two apart; of more only the offsets are known.
_COUNTED = 10_000


def look(old: RecoveryContext, clone: RecoveryContext) -> Pair:
    """Look at both sides. Raises ``Refused`` when one is no clone of the other, and ``NotFound`` for inputs that do not exist."""
    if clone.config.clone is None or clone.config.clone.of != old.config.name:
        raise Refused(
            f"{clone.config.name} is not configured as a clone of {old.config.name}",
            next_step="write a clone section; docs/strategies/clone.md explains it",
        )
    inputs = input_partitions(clone)
    theirs, mine = offsets_of(old, input_partitions(old)), offsets_of(clone, inputs)
    both = [tp for tp in inputs if tp in theirs]
    old_side, clone_side = _side(old, clone, theirs), _side(clone, old, mine)
    return Pair(
        old=old_side,
        clone=clone_side,
        outputs=dict(zip(clone.config.topics.outputs, live(clone.config).topics.outputs, strict=True)),
        starts=old.cluster.log_starts(list(theirs)),
        lag=between(clone, {tp: (lag.position, lag.stable) for tp, lag in measure(clone, inputs).items()}),
        old_ahead=between(old, {tp: (mine[tp], theirs[tp]) for tp in both}),
        clone_ahead=between(clone, {tp: (theirs[tp], mine[tp]) for tp in both}),
        origin=_origin(clone),
        old_has_read=has_read(clone, mine),
        same_cluster=old.cluster.cluster_id() == clone.cluster.cluster_id(),
    )


def role(recovery: RecoveryContext) -> Role:
    """The role that an application has now."""
    return role_of(recovery.ownership.last(), is_clone=recovery.config.clone is not None)


def stranger(recovery: RecoveryContext, other: RecoveryContext) -> OwnershipEntry | None:
    """The newest entry of an application's log, where it names an application that is not configured; None without such an entry, or without configurations."""
    last = recovery.ownership.last()
    known = {one.application.id for one in recovery.applications().values()}
    return last if last is not None and known and last.other not in (*known, other.application_id) else None


def _proven(recovery: RecoveryContext, other: RecoveryContext) -> OwnershipEntry | None:
    """The newest entry of the log whose application is configured."""
    known = {other.application_id, *(one.application.id for one in recovery.applications().values())}
    return next((entry for entry in recovery.ownership.readable_back(whole=False) if entry.other in known), None)


def running(recovery: RecoveryContext) -> bool:
    """True when some instance is not proven gone."""
    return bool(not_gone(recovery))


def offsets_of(recovery: RecoveryContext, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Committed offsets; nothing committed is 0."""
    wanted = list(partitions)
    committed = recovery.groups.committed(recovery.application_id, wanted) if wanted else {}
    return {tp: 0 if known is None else known.offset for tp, known in sorted(committed.items())}


def unread(recovery: RecoveryContext) -> dict[TopicPartition, int]:
    """Records of repartition topics that the application has not processed, where there are any. Transactions must be decided."""
    partitions = repartition_partitions(recovery)
    found = between(recovery, {tp: (lag.position, lag.stable) for tp, lag in measure(recovery, partitions).items()})
    return {tp: found[tp] for tp in partitions if tp in found}


def between(recovery: RecoveryContext, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """Count the records in each range of offsets; ranges without any are left out. For long ranges with records, and for those whose beginning is gone, it is
    the number of offsets.
    """
    wanted = {tp: span for tp, span in ranges.items() if span[0] < span[1]}
    starts = recovery.cluster.log_starts(list(wanted)) if wanted else {}
    found = {}
    for tp, (start, end) in sorted(wanted.items()):
        first = max(start, starts[tp]) if start == 0 else start
        count = end - first
        if starts[tp] <= first < end:
            count = _records(recovery, tp, first, end) if count <= _COUNTED else count if _any(recovery, tp, first, end) else 0
        if count > 0:
            found[tp] = count
    return found


def _any(recovery: RecoveryContext, tp: TopicPartition, start: int, end: int) -> bool:
    found = next_records(recovery, {tp: (start, end)}).get(tp)
    return found is None or found.record or found.upto < end


def _records(recovery: RecoveryContext, tp: TopicPartition, start: int, end: int) -> int:
    try:
        with RangeReader(recovery.connection, tp, start, end) as reader:
            return sum(batch.num_rows for batch in reader)
    except OffsetsGone:
        # A running application deletes what it has read of its repartition topics, also after its offsets were asked for.
        return end - start


def _side(recovery: RecoveryContext, other: RecoveryContext, committed: Mapping[TopicPartition, int]) -> Side:
    strange = stranger(recovery, other)
    last = recovery.ownership.last() if strange is None else _proven(recovery, other)
    statuses = recovery.application.status()
    alive = tuple(f"{i.name} ({i.detail})" for i in statuses if i.state is InstanceState.RUNNING)
    topics = recovery.topics
    return Side(
        application_id=recovery.application_id,
        role=role_of(last, is_clone=recovery.config.clone is not None),
        other=None if last is None else last.other,
        alive=alive,
        unknown=tuple(f"{i.name} ({i.detail})" for i in statuses if i.state is InstanceState.UNKNOWN),
        clean=closed_cleanly(statuses),
        transactional=recovery.config.application.guarantee is Guarantee.EXACTLY_ONCE_V2,
        inputs=topics.inputs,
        globals=topics.globals,
        outputs=topics.outputs,
        committed=committed,
        # While it runs, that changes with every record.
        unread={} if alive else unread(recovery),
        unfinished=unfinished_restore(recovery),
        retired_offsets=None if last is None or last.role is not Role.RETIRED else last.offsets,
        stranger=None if strange is None else strange.other,
        # Of a clone the other application is its original, whatever its log names.
        stranger_in_use=() if strange is None or recovery.config.clone is not None else recovery.counterpart(strange).in_use,
    )


def has_read(clone: RecoveryContext, offsets: Mapping[TopicPartition, int]) -> bool:
    """True when the old application was seen to have read up to just these ``offsets`` of the clone."""
    last = _read_log(clone).last()
    return last is not None and last.offsets == offsets


def note_read(clone: RecoveryContext, offsets: Mapping[TopicPartition, int]) -> None:
    """Write down that the old application has read what the clone had, so that another run can finish a cut-over that fails."""
    _read_log(clone).append(ReadUpTo(offsets=dict(offsets)))


def _read_log(clone: RecoveryContext) -> AppendLog[ReadUpTo]:
    return AppendLog(clone.repository, clone.layout.read_up_to, ReadUpTo)


def _origin(clone: RecoveryContext) -> Origin | None:
    found = restore.state_evidence(clone)
    report = found.whole
    if report is None:
        return None
    return Origin(
        restore_id=report.restore_id,
        source=report.source_application_id,
        savepoint_id=report.savepoint_id,
        consistency=report.consistency,
        offsets=report.strategy,
        proven=report.verdict is Verdict.EQUAL,
        altered=tuple(sorted({topic.topic for one in found.alone for topic in one.topics})),
    )
