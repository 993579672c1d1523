"""The records of two topics that come from the same input.

For a clone the beginning is its savepoint: an exact one has the end that each real output had when the savepoint's offsets were committed, and the clone began
at these offsets. So the results of the same input are in the real output from that end on, and in the clone's output from its beginning on. One by the names of
transactions also has the records before that end which are not of its transactions.

The end is found while both applications run, in this order:

1. the end of each real output: E1, and then of each input: I1. Records below E1 were caused by input below I1.
2. The clone has processed its input up to I1 and all that this caused: so it has written the counterparts of all records below E1.
3. The end of each output of the clone: E2, and then of each input: I2. Records below E2 were caused by input below I2.
4. The old application has processed its input up to I2 and all that this caused: so it has written the counterparts of all records below E2.
5. The end of each real output: E3.

So real records below E1 are in the clone's below E2, and those are in the real ones below E3. Without new input E1 is E3, and all must be equal. Committed
offsets are enough for this under both guarantees: Kafka Streams commits an offset after all effects of the input below it were acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import Guarantee, TopicPartition
from streams_recovery.core.outputs.comparison import OutputRange
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.restore.outputs_behind import StateEnd
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.rollout.cutover import comparison_problems, further, unwritten
from streams_recovery.core.sandbox.interval_log import ReprocessEntry
from streams_recovery.core.sandbox.results import PublishPolicy
from streams_recovery.core.words import moment
from streams_recovery.operations import interval
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import input_partitions
from streams_recovery.operations.restore.evidence import reports, state_evidence
from streams_recovery.operations.rollout.discover import look
from streams_recovery.operations.rollout.open import refuse
from streams_recovery.operations.rollout.values import await_processed

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Real outputs and, by their names, the topics to compare with; the ranges of each topic; and what is to be said of it. ``interval`` is None for a
    clone. ``other`` and ``savepoint_id`` are as in a ticket.
    """

    topics: Mapping[str, str]
    ranges: Mapping[str, tuple[OutputRange, ...]]
    interval: Interval | None
    other: str
    savepoint_id: str
    notes: tuple[str, ...]


def of_clone(old: RecoveryContext, clone: RecoveryContext) -> Sides:
    """Both sides of an application and its clone. Waits as said above, each time until the application makes no progress for
    ``restore.catch_up_timeout_seconds``.

    Raises ``Refused`` with everything that keeps the two from being comparable, ``NotFound``, and ``ApplicationNotReady`` when one of the two is down or
    stands still before its input.
    """
    pair = look(old, clone)
    refuse(comparison_problems(pair), f"the comparison of {old.application_id} with {clone.application_id}")
    report = state_evidence(clone).whole
    if report is None or report.savepoint_id is None:
        raise Refused(f"{clone.application_id} began from no savepoint", next_step="clone it again from an exact savepoint")
    manifest = old.savepoints.read(report.savepoint_id)
    _require_undisturbed(old, clone, report, manifest)
    more = further(pair)
    topics = {real: own for own, real in pair.outputs.items() if real not in more}
    if not topics:
        raise Refused(
            f"{clone.application_id} writes no output that {old.application_id} writes: there is nothing to compare",
            next_step="compare topics.outputs of the two configurations",
            outputs=list(more),
        )
    real, own = _partitions(old, topics), _partitions(clone, topics.values())
    _require_same_topics(old, real, manifest)
    inputs = input_partitions(clone)
    first, reached = old.cluster.high_watermarks(real), clone.cluster.high_watermarks(inputs)
    await_processed(clone, reached, patience=float(clone.config.restore.catch_up_timeout_seconds))
    own_ends, reached = clone.cluster.high_watermarks(own), clone.cluster.high_watermarks(inputs)
    await_processed(old, reached, patience=float(old.config.restore.catch_up_timeout_seconds))
    last = old.cluster.high_watermarks(real)
    here = _behind_state(manifest, first, last)
    began = _own_beginnings(clone, report, own)
    there = [OutputRange(tp=tp, start=began[tp], settled=own_ends[tp], end=own_ends[tp]) for tp in own]
    _require_there(old, [*here, *there])
    arrived = sum(last[tp] - first[tp] for tp in real)
    return Sides(
        topics=topics,
        ranges=_by_topic([*here, *there]),
        interval=None,
        other=clone.application_id,
        savepoint_id=report.savepoint_id,
        notes=(
            f"real outputs from the end that they had in savepoint {report.savepoint_id} on, those of {clone.application_id} from their beginning on",
            f"{arrived:,} offsets of real outputs came while the comparison was prepared: keys that have records there may be in flux"
            if arrived
            else "no result came while the comparison was prepared: both have processed the same input",
            *unwritten(pair),
            *(
                (f"outputs of {clone.application_id} that {old.application_id} does not write were not compared: {', '.join(more)}",)
                if more
                else ()
            ),
            *_without_transactions(old, clone),
        ),
    )


def _without_transactions(*applications: RecoveryContext) -> tuple[str, ...]:
    loose = [one.application_id for one in applications if one.config.application.guarantee is not Guarantee.EXACTLY_ONCE_V2]
    return (f"without transactions ({', '.join(loose)}) records come twice after a crash, and count as differences",) if loose else ()


def of_interval(recovery: RecoveryContext, start: int | None) -> Sides:
    """Both sides of the results of an interval: the newest interval, or that which begins at ``start``. Waits until the application has processed the present
    input. Raises ``NotFound``, ``Refused`` and ``ApplicationNotReady``.
    """
    entry = _entry(recovery, start)
    published = () if entry.published is None else entry.published.outputs
    wanted = Interval(start=entry.start, end=entry.end)
    topics = {one.output: one.topic for one in published}
    real, own = _partitions(recovery, topics), _partitions(recovery, topics.values())
    reached = recovery.cluster.high_watermarks(input_partitions(recovery))
    await_processed(recovery, reached, patience=float(recovery.config.restore.catch_up_timeout_seconds))
    ends = recovery.cluster.high_watermarks([*real, *own])
    # No record before it has a timestamp of the interval.
    begins = recovery.cluster.offsets_for_times(real, wanted.start)
    begin = {tp: ends[tp] if (found := begins[tp]) is None else found for tp in real} | dict.fromkeys(own, 0)
    _require_kept(recovery, begin, wanted)
    return Sides(
        topics=topics,
        ranges=_by_topic(OutputRange(tp=tp, start=begin[tp], settled=ends[tp], end=ends[tp]) for tp in ends),
        interval=wanted,
        other=wanted.name,
        savepoint_id="",
        notes=(
            f"results with timestamps from {moment(wanted.start)} up to {moment(wanted.end)}; the application has processed all input that there is",
            *_without_transactions(recovery),
        ),
    )


def _entry(recovery: RecoveryContext, start: int | None) -> ReprocessEntry:
    for entry in reversed(interval.history(recovery)):
        side_by_side = entry.succeeded and entry.published is not None and entry.published.how is PublishPolicy.SIDE_BY_SIDE
        if side_by_side and start in (None, entry.start):
            return entry
    which = "no interval" if start is None else f"no interval from {moment(start)} on"
    raise NotFound(
        f"{recovery.application_id} has {which} whose results stand side by side",
        next_step="process one again with `publish: side_by_side`, or name another start",
        start=start,
    )


def _partitions(recovery: RecoveryContext, topics: Iterable[str]) -> list[TopicPartition]:
    names = list(topics)
    found = recovery.cluster.describe_topics(names)
    missing = sorted(set(names) - set(found))
    if missing:
        raise NotFound(
            f"outputs do not exist: {', '.join(missing)}",
            next_step="check topics.outputs and restore.topic_map; results of an interval are there until somebody deletes them",
            topics=missing,
        )
    return [TopicPartition(name, number) for name in sorted(found) for number in range(found[name].partitions)]


def _behind_state(manifest: Manifest, first: Ends, last: Ends) -> list[OutputRange]:
    """What real outputs have behind the state of a savepoint: of one by names also what other transactions wrote between its own. A partition that was added
    since then has only records from since then.
    """
    ends = {
        TopicPartition(topic.name, image.partition): StateEnd.of(manifest, topic.name, image)
        for topic in manifest.topics
        for image in topic.partitions
    }
    found = []
    for tp in sorted(last):
        end = ends.get(tp, StateEnd(0, 0, (), named=False))
        spans = [*((one.first, one.last + 1) for one in end.out), (end.end, last[tp])]
        found += [OutputRange(tp=tp, start=start, settled=first[tp], end=upto) for start, upto in spans]
    return found


def _by_topic(ranges: Iterable[OutputRange]) -> dict[str, tuple[OutputRange, ...]]:
    found: dict[str, list[OutputRange]] = {}
    for one in sorted(ranges, key=lambda one: (one.tp, one.start)):
        found.setdefault(one.tp.topic, []).append(one)
    return {name: tuple(several) for name, several in found.items()}


def _require_same_topics(old: RecoveryContext, real: list[TopicPartition], manifest: Manifest) -> None:
    found = old.cluster.describe_topics({tp.topic for tp in real})
    other = [name for name, one in sorted(found.items()) if (then := manifest.topic(name)) is None or then.topic_id != one.topic_id]
    if other:
        raise Refused(
            f"savepoint {manifest.savepoint_id} does not know where in {', '.join(other)} its results end: they are other topics now, or were not among "
            "the outputs then",
            next_step="take a savepoint of the old application and clone it again",
            topics=other,
        )


def _require_kept(recovery: RecoveryContext, begin: Ends, wanted: Interval) -> None:
    """Retention deletes from the beginning of a log. Where that is gone, only a record from before the interval shows that none of the interval is."""
    starts = recovery.cluster.log_starts(list(begin))
    gone = [str(tp) for tp, start in sorted(starts.items()) if start > 0 and start >= begin[tp]]
    if gone:
        raise Refused(
            f"results of the interval may have been deleted: the logs of {', '.join(gone[:5])} have no record from before {moment(wanted.start)} any more",
            next_step="process a later interval, or keep the outputs and the interval's results longer (retention.ms)",
            partitions=gone,
        )


def _require_there(recovery: RecoveryContext, ranges: Sequence[OutputRange]) -> None:
    """Records that retention has deleted cannot be compared."""
    starts = recovery.cluster.log_starts([one.tp for one in ranges])
    gone = sorted({str(one.tp) for one in ranges if starts[one.tp] > one.start})
    if gone:
        raise Refused(
            f"results that would be compared were deleted: {', '.join(gone[:5])}",
            next_step="clone again from a newer savepoint, or keep the outputs longer (retention.ms) while the clone runs",
            partitions=gone,
        )
    short = [str(one.tp) for one in ranges if one.start > one.end]
    if short:
        raise Refused(
            f"{', '.join(short[:5])} ended later when the clone began than now: the topic was deleted and created again",
            next_step="clone again from a newer savepoint",
            partitions=short,
        )


def _require_undisturbed(old: RecoveryContext, clone: RecoveryContext, report: RestoreReport, manifest: Manifest) -> None:
    """Neither application has begun anew, or written the other's outputs, since the clone was made."""
    found = []
    for one in (old, clone):
        last = one.ownership.last()
        if last is not None and last.at >= report.started_at:
            found.append(f"outputs were transferred between {old.application_id} and {clone.application_id} since the clone was made")
            break
    restored = state_evidence(old)
    if (whole := restored.whole) is not None and whole.finished_at >= manifest.captured_at:
        found.append(f"{old.application_id} was restored (restore {whole.restore_id}) since savepoint {manifest.savepoint_id}")
    for alone in restored.alone:
        if alone.finished_at >= manifest.captured_at:
            names = ", ".join(topic.topic for topic in alone.topics)
            found.append(
                f"topics of {old.application_id} were restored alone (restore {alone.restore_id}) since savepoint {manifest.savepoint_id}: {names}"
            )
    refuse(tuple(found), f"the comparison of {old.application_id} with {clone.application_id}", savepoint=manifest.savepoint_id)


def _own_beginnings(clone: RecoveryContext, report: RestoreReport, own: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The offsets from which on the clone wrote its own outputs: behind the loaded records in outputs that its restore created, and behind the earlier records
    in outputs that were kept. The safety savepoint, taken while it was down, knows the ends of the kept ones.
    """
    loaded = {TopicPartition(topic.topic, one.partition): one.rows for topic in report.topics for one in topic.partitions}
    created = {topic.topic for topic in report.topics}
    kept = sorted({tp.topic for tp in own} - created)
    before: Ends = {}
    if kept and report.safety_savepoint is not None:
        saved = clone.safety.read(report.safety_savepoint)
        before = {TopicPartition(topic.name, one.partition): one.end for topic in saved.topics for one in topic.partitions}
    elif kept and any(one < report.restore_id for one in reports(clone.repository, clone.layout)):
        raise Refused(
            f"{', '.join(kept)} were there before {clone.application_id} was made, and no safety savepoint says where they ended",
            next_step="clone again with a safety savepoint; or into other output names. Delete the old ones only when nobody reads them",
            topics=kept,
        )
    return {tp: loaded.get(tp, 0) if tp.topic in created else before.get(tp, 0) for tp in own}
