"""Results of an interval: left in topics of its own, or put into the application's outputs, all of them in one transaction.

Outputs are read by one process, one partition at a time: counts, and the newest record of each key or a digest of every record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streams_recovery.core.errors import ApplicationRunning, NotFound, OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.sandbox.interval_log import OutputReport, PublishReport, ReprocessRequest
from streams_recovery.core.sandbox.results import Every, Newest, NewestRecord, PublishPolicy, Readers, decide_every, decide_newest, readers
from streams_recovery.core.waiting import pause
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.transactional_append import append
from streams_recovery.operations.context import RecoveryContext, not_gone
from streams_recovery.operations.interval.run import check_outputs, outputs_of
from streams_recovery.operations.renewed_lock import renewed_lock
from streams_recovery.operations.restore import RestoreTicket
from streams_recovery.operations.restore.drain import whole_input
from streams_recovery.operations.restore.open import guarded, stored_plan
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_lists, record_digest

_ATTEMPTS: Final = 5
_AGAIN_SECONDS: Final = 2.0
_NAMED: Final = 5


@dataclass(kw_only=True)
class Held:
    """One partition of an output. ``newest`` or ``digests`` is filled, as its readers see it; of records ``inside`` the interval, unless said otherwise."""

    inside: int = 0
    outside: int = 0
    newest: dict[bytes, NewestRecord] = field(default_factory=dict)
    digests: Counter[bytes] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """The decision for one partition. ``source`` is the interval's own log, up to ``end``; ``target_end`` is where the output ended."""

    source: TopicPartition
    target: TopicPartition
    end: int
    target_end: int
    decided: Newest | Every

    def rows(self, recovery: RecoveryContext, interval: Interval) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """The results to write, and tombstones behind them."""
        wanted = pa.array(sorted(self.decided.write), pa.int64()) if isinstance(self.decided, Newest) else None
        if self.decided is Every.APPEND or (wanted is not None and len(wanted)):
            for batch in _batches(recovery, self.source, 0, self.end):
                stamps = batch.column("timestamp")
                inside = pc.and_(pc.greater_equal(stamps, interval.start), pc.less(stamps, interval.end))
                found = batch.filter(inside if wanted is None else pc.is_in(batch.column("offset"), value_set=wanted))
                if len(found):
                    yield self.target, found
        if isinstance(self.decided, Newest) and self.decided.vanished:
            yield self.target, _tombstones(self.decided.vanished, interval.end - 1)

    def counted(self, report: OutputReport, inside: int) -> OutputReport:
        """The report with this partition in it."""
        if isinstance(self.decided, Newest):
            return replace(
                report,
                written=report.written + len(self.decided.write),
                tombstones=report.tombstones + len(self.decided.vanished),
                same=report.same + self.decided.same,
                superseded=report.superseded + self.decided.superseded,
            )
        if self.decided is Every.APPEND:
            return replace(report, written=report.written + inside)
        return replace(report, same=report.same + inside)


def _tombstones(keys: tuple[bytes, ...], timestamp: int) -> pa.RecordBatch:
    rows = [{"offset": 0, "timestamp": timestamp, "timestamp_type": 0, "key": key, "value": None, "headers": None} for key in keys]
    return pa.RecordBatch.from_pylist(rows, schema=SEGMENT_SCHEMA)


def publish_results(recovery: RecoveryContext, ticket: RestoreTicket, request: ReprocessRequest) -> PublishReport:
    """Publish the results of the interval. Repeating it does not double anything: results that an output has already are left as they are. An output with an
    open transaction is tried again a few times.

    Raises ``ApplicationRunning`` before the interval's application is down, ``Refused`` when results cannot replace those that are there (nothing was
    written then), and ``OffsetsUnstable`` when the outputs go on being written to.
    """
    guarded(recovery, ticket, at_least=whole_input(stored_plan(recovery, ticket)), before=Phase.CLOSED)
    alive = [status.name for status in not_gone(recovery)]
    if alive:
        raise ApplicationRunning(
            f"{recovery.application_id} still runs: {', '.join(alive)}", next_step="wait until it has stopped at the ends of its input"
        )
    with renewed_lock(recovery, ticket):
        return _replaced(recovery, ticket, request) if request.publish is PublishPolicy.REPLACE else _beside(recovery, request)


def _beside(recovery: RecoveryContext, request: ReprocessRequest) -> PublishReport:
    interval, outputs = request.slice.interval, []
    for output, topic in outputs_of(recovery).items():
        held = [_held_by(recovery, tp, 0, end, interval, None) for tp, end in _ends(recovery, topic).items()]
        report = OutputReport(output=output, topic=topic, results=sum(one.inside for one in held), outside=sum(one.outside for one in held))
        outputs.append(report)
    return PublishReport(how=PublishPolicy.SIDE_BY_SIDE, outputs=tuple(outputs))


def _ends(recovery: RecoveryContext, topic: str) -> dict[TopicPartition, int]:
    found = recovery.cluster.describe_topics([topic]).get(topic)
    if found is None:
        raise NotFound(f"topic {topic} with results is gone", next_step="process the interval again", topic=topic)
    return recovery.cluster.last_stable_offsets([TopicPartition(topic, number) for number in range(found.partitions)])


def _replaced(recovery: RecoveryContext, ticket: RestoreTicket, request: ReprocessRequest) -> PublishReport:
    made = {topic.name: len(topic.partitions) for topic in stored_plan(recovery, ticket).create}
    check_outputs(recovery, {output: made[topic] for output, topic in outputs_of(recovery).items() if topic in made}, request)
    attempt = 1
    while True:
        try:
            return _replace_once(recovery, request)
        except OffsetsUnstable:
            if attempt == _ATTEMPTS:
                raise
            attempt += 1
            # The producer of an open transaction ends it meanwhile, or the broker does.
            pause(_AGAIN_SECONDS, "open transactions in outputs to end")


def _replace_once(recovery: RecoveryContext, request: ReprocessRequest) -> PublishReport:
    interval, reports, work = request.slice.interval, [], []
    settings = recovery.cluster.settings(list(outputs_of(recovery)))
    for output, topic in outputs_of(recovery).items():
        report = OutputReport(output=output, topic=topic, results=0, outside=0)
        for source, end in _ends(recovery, topic).items():
            held, part = _decided(recovery, source, end, TopicPartition(output, source.partition), interval, readers(settings[output]))
            report = replace(report, results=report.results + held[0], outside=report.outside + held[1])
            report = part.counted(report, held[0])
            work.append(part)
        reports.append(report)
    _check(work, request)
    ends = {part.target: part.target_end for part in work}
    if any(report.written or report.tombstones for report in reports):
        append(
            recovery.connection,
            f"{recovery.application_id}-publish",
            ends,
            (row for part in work for row in part.rows(recovery, interval)),
        )
    return PublishReport(how=PublishPolicy.REPLACE, outputs=tuple(reports))


def _decided(
    recovery: RecoveryContext, source: TopicPartition, end: int, target: TopicPartition, interval: Interval, read_by: Readers
) -> tuple[tuple[int, int], _Partition]:
    results = _held_by(recovery, source, 0, end, interval, read_by)
    target_end = _still_end(recovery, target)
    # Records older than the interval are before this offset, and so is each key's newest record if it was not replaced since.
    begins = recovery.cluster.offsets_for_times([target], interval.start)[target]
    there = _held_by(recovery, target, target_end if begins is None else begins, target_end, interval, read_by, outside=True)
    decided: Newest | Every = (
        decide_newest(interval, results.newest, there.newest) if read_by is Readers.NEWEST else decide_every(results.digests, there.digests)
    )
    part = _Partition(source=source, target=target, end=end, target_end=target_end, decided=decided)
    return (results.inside, results.outside), part


def _still_end(recovery: RecoveryContext, tp: TopicPartition) -> int:
    end, stable = recovery.cluster.high_watermarks([tp])[tp], recovery.cluster.last_stable_offsets([tp])[tp]
    if end != stable:
        raise OffsetsUnstable(
            f"a producer writes to {tp}: its last stable offset is {stable} and it ends at {end}",
            next_step="nothing was written; stop the application that writes there for as long as this takes, and run this step again",
            topic=tp.topic,
            partition=tp.partition,
        )
    return end


def _check(work: list[_Partition], request: ReprocessRequest) -> None:
    different = [str(part.target) for part in work if part.decided is Every.DIFFERENT]
    if different:
        raise Refused(
            f"{', '.join(different[:_NAMED])} have other results of the interval, and their readers see every record: those that are there "
            "cannot be taken back, and more would double them",
            next_step="nothing was written; leave the results side by side and let readers change over, or compact these outputs",
            partitions=different,
        )
    vanished = {str(part.target): part.decided.vanished for part in work if isinstance(part.decided, Newest) and part.decided.vanished}
    if vanished and not request.tombstones:
        named = "; ".join(f"{tp}: {len(keys)}, such as {keys[0]!r:.60}" for tp, keys in list(vanished.items())[:_NAMED])
        raise Refused(
            f"keys have a result of the interval that processing it again did not bring: {named}",
            next_step="nothing was written; look at them, and allow tombstones if these keys are to be deleted",
            keys=sum(len(keys) for keys in vanished.values()),
        )


def _held_by(
    recovery: RecoveryContext,
    tp: TopicPartition,
    start: int,
    end: int,
    interval: Interval,
    read_by: Readers | None,
    *,
    outside: bool = False,
) -> Held:
    """Count the records in ``[start, end)`` of a partition, and note them for their readers. With ``outside`` the newest record of a key is taken wherever it
    is. Without ``read_by`` only counts. Needs memory for each key, or for each record of the interval.
    """
    held = Held()
    for batch in _batches(recovery, tp, start, end):
        stamps = batch.column("timestamp").to_pylist()
        inside = sum(stamp in interval for stamp in stamps)
        held.inside, held.outside = held.inside + inside, held.outside + len(stamps) - inside
        if read_by is not None and (inside or outside):
            _note(held, batch, interval, read_by, outside=outside)
    return held


def _batches(recovery: RecoveryContext, tp: TopicPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """The committed records of a range."""
    with RangeReader(recovery.connection, tp, start, end) as reader:
        yield from reader


def _note(held: Held, batch: pa.RecordBatch, interval: Interval, read_by: Readers, *, outside: bool) -> None:
    columns = [batch.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value")]
    for offset, stamp, key, value, headers in zip(*columns, header_lists(batch.column("headers")), strict=True):
        if not outside and stamp not in interval:
            continue
        digest = record_digest(stamp, key, value, headers)
        if read_by is Readers.NEWEST:
            held.newest[key or b""] = NewestRecord(offset=offset, timestamp=stamp, digest=digest, tombstone=value is None)
        elif stamp in interval:
            held.digests[digest] += 1
