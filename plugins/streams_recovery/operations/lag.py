"""The lag of an application in the logs that it reads, on the cluster: by offsets (``measure``), or only where records are left (``RecordLag``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from streams_recovery.core import lag as lagging
from streams_recovery.core.errors import OffsetsGone
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.lag import Lag, NextRecord, Unread
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.reader import Consumers, RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import repartition_partitions

# Ranges that one look at a running application reads: by the next look most of the others will have moved.
_AT_ONCE = 50


def measure(recovery: RecoveryContext, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Lag]:
    """The lag of the application's group in each partition, up to its high watermark."""
    wanted = list(partitions)
    if not wanted:
        return {}
    # In this order no end is below what was committed or decided before it.
    committed = recovery.groups.committed(recovery.application_id, wanted)
    starts, stable = recovery.cluster.log_starts(wanted), recovery.cluster.last_stable_offsets(wanted)
    return lagging.lags(committed, starts, stable, recovery.cluster.high_watermarks(wanted))


class RecordLag:
    """Looks again and again how far an application is behind. A look need not read a partition that has not moved since the look before."""

    def __init__(self, recovery: RecoveryContext, known: Mapping[TopicPartition, Unread] | None = None) -> None:
        """``known`` is what the last look of another one has found."""
        self._context = recovery
        self.known: Mapping[TopicPartition, Unread] = known or {}

    def look(
        self, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset | None], *, down: bool = False
    ) -> dict[TopicPartition, Lag]:
        """Partitions with records left below their ends, and their lag up to there. Those without a record up to there are left out: at once when the
        application is ``down``, and else when they have not moved since the look before.
        """
        cluster, short = (
            self._context.cluster,
            [tp for tp, end in ends.items() if (known := committed.get(tp)) is None or known.offset < end],
        )
        starts, stable = (cluster.log_starts(short), cluster.last_stable_offsets(short)) if short else ({}, {})
        found = lagging.follow(self.known, lagging.lags(committed, starts, stable, {tp: ends[tp] for tp in short}))
        looks, most = (1, len(found)) if down else (2, _AT_ONCE)
        self.known = lagging.read(found, next_records(self._context, lagging.to_read(found, looks=looks, most=most)))
        return lagging.unread(self.known, ends)


def next_records(recovery: RecoveryContext, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, NextRecord]:
    """The first committed record in each range of offsets, as far as transactions are decided. A deleted range holds none."""
    if not ranges:
        return {}
    starts = recovery.cluster.log_starts(list(ranges))
    stable = recovery.cluster.last_stable_offsets(list(ranges))
    wanted = [OffsetRange(tp, max(start, starts[tp]), min(end, stable[tp])) for tp, (start, end) in sorted(ranges.items())]
    with Consumers(recovery.connection, cluster=recovery.cluster) as consumers:
        consumers.announce(wanted)
        found = {each.tp: _next_record(consumers, each) for each in wanted}
    return {tp: result for tp, result in found.items() if result is not None}


def _next_record(consumers: Consumers, wanted: OffsetRange) -> NextRecord | None:
    try:
        with RangeReader(consumers, *wanted) as reader:
            for batch in reader:
                return NextRecord(upto=batch.column("offset")[0].as_py(), record=True)
    except OffsetsGone:
        # A running application deletes what it has read of its repartition topics: it has moved, and the next look sees that.
        return None
    return NextRecord(upto=max(wanted.start, wanted.end), record=False)


def own_partitions(recovery: RecoveryContext) -> list[TopicPartition]:
    """Partitions of topics that the application writes for itself to read: repartition topics, and outputs that are inputs too."""
    topics = recovery.config.topics
    read_back = sorted(name for name in topics.outputs if topics.reads(name))
    found = recovery.cluster.describe_topics(read_back) if read_back else {}
    return [
        *repartition_partitions(recovery),
        *(TopicPartition(name, number) for name in found for number in range(found[name].partitions)),
    ]
