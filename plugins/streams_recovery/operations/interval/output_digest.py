"""Reading what an output holds of an interval: counts, and the newest record of each key or a digest of every record. One process, one partition at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.sandbox.results import NewestRecord, Readers
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.segments.schema import header_lists, record_digest


@dataclass(kw_only=True)
class Held:
    """One partition of an output. ``newest`` or ``digests`` is filled, as its readers see it; of records ``inside`` the interval, unless said otherwise."""

    inside: int = 0
    outside: int = 0
    newest: dict[bytes, NewestRecord] = field(default_factory=dict)
    digests: Counter[bytes] = field(default_factory=Counter)


def held_by(
    recovery: RecoveryContext,
    tp: TopicPartition,
    start: int,
    end: int,
    interval: Interval,
    read_by: Readers | None,
    *,
    outside: bool = False,
) -> Held:
    """What ``[start, end)`` of a partition holds. With ``outside`` the newest record of a key is taken wherever it is. Without ``read_by`` only
    counts. Needs memory for each key, or for each record of the interval.
    """
    held = Held()
    for batch in batches(recovery, tp, start, end):
        stamps = batch.column("timestamp").to_pylist()
        inside = sum(stamp in interval for stamp in stamps)
        held.inside, held.outside = held.inside + inside, held.outside + len(stamps) - inside
        if read_by is not None and (inside or outside):
            _note(held, batch, interval, read_by, outside=outside)
    return held


def batches(recovery: RecoveryContext, tp: TopicPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
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
