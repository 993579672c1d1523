"""Transactions have names: what is read of the logs of an application that works exactly once, in which order, and why that suffices for a cut.

**Names.** With the feature ``transaction.version`` 2 (KIP-890) the coordinator raises the epoch of a producer with each of its transactions. Records carry
(producer id, e), the marker of their transaction a higher epoch of the same producer id, in every log that it wrote to. As Kafka has it:

- The end of a transaction raises the epoch by one, committed or aborted (``TransactionMetadata#prepareAbortOrCommit``), and the marker has that epoch
  (``TransactionMarkerChannelManager#addTxnMarkersToSend``). Brokers before 4.0.1 raise it by two where they abort for another producer with the same
  transactional id, or after a timeout: ``TransactionMetadata#prepareFenceProducerEpoch`` raises it, and then the abort (KAFKA-19367). So a marker belongs to
  the transaction that its producer has open in that log. There is one at most (``ProducerAppendInfo#appendDataBatch``), and the next one begins when every
  marker of the last one is written (``TransactionCoordinator#handleAddPartitionsToTransaction``).
- Epochs end: after epoch 32766 the marker has 32767 and still the old producer id, and the answer to the client has a new producer id and epoch 0
  (``TransactionMetadata#prepareComplete``). A producer that begins anew with epoch 32766 has a new id too (``TransactionMetadata#prepareProducerIdRotation``).
- A producer that is fenced writes nothing more: a leader takes no records of an epoch below that of a marker (``ProducerAppendInfo#checkProducerEpoch``).
  One that lost its tasks commits no offsets: the group refuses its generation. Its transaction is aborted at its timeout.
- A marker may be there twice, after the coordinator moved (KAFKA-19999). The second one ends nothing.
- A client before 4.0 ends its transactions with the epoch of its records (``TransactionCoordinator#endTransactionWithTV1``), so two of them have one name.
- The cleaner keeps the marker of a commit while records of the transaction are left (``CleanedTransactionMetadata#onControlBatchRead``), and takes nothing
  above the last stable offset.

All offsets of a group lie in one partition of __consumer_offsets, so the markers there order the transactions that move an offset.

**The order of the readings**, each over when the next one begins:

1. S, the last stable offset of the group's partition: what is decided there later is above it as a whole;
2. L, the last stable offsets of the logs, and their ends, and a wait until their last stable offsets have come to those. A transaction that was decided by 1 in
   the group's partition, or by L in a log, had been acknowledged everywhere. So now it is decided in every log;
3. N0, the end of the group's partition; a transaction that has a record below L had sent its offsets by then. Then the committed offsets, and a wait until no
   transaction of the group is open below N0;
4. ``before``, the ends of the logs;
5. N, the end of the group's partition, and then the time. Transactions with their marker below it are the first draft of T;
6. ``after``, the ends of the logs, and once more: ``ends``. A transaction with a marker below ``after`` in one log has all its records below ``ends``;
7. the last stable offsets of the logs once they have come to ``ends``, and then the ends for the last time: every transaction that begins below ``ends`` has
   its marker below these. The batches from L to there, and the first offsets that are still there;
8. the committed offsets again, and the group's records from S to the end that its partition has now. Whatever was decided in a log by 7 has its offsets here,
   and so has what was committed since 3: else it is not the group's partition.

So all below L is in T, and the cost is that of the moments since: not that of the logs. A task changes its owner only after a record about the group's
members, between the last commit of the old owner and the first one of the new: the cut counts on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.waiting import poll

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """The name of a transaction: its producer, and the epoch of its records."""

    producer_id: int
    epoch: int


class NamedBatch(NamedTuple):
    """A batch of a log, offsets ``base`` to ``last``, with so many ``records`` left. ``marker`` is True for one that commits, False for one that aborts, None
    for records.
    """

    base: int
    last: int
    producer_id: int
    epoch: int
    transactional: bool
    marker: bool | None
    records: int


class GroupRecord(NamedTuple):
    """A record of the group at offset ``at`` of its partition of __consumer_offsets, or the ``marker`` of a transaction there. ``committed`` is None if the
    offset of ``tp`` was deleted. A record with neither ``tp`` nor ``marker`` is about the group's members.
    """

    at: int
    producer_id: int
    epoch: int
    transactional: bool
    marker: bool | None = None
    tp: TopicPartition | None = None
    committed: CommittedOffset | None = None


class NamedReader(Protocol):
    """Reads the logs of one application and its group's partition. Each partition of an answer may have been read at a time of its own."""

    def clock(self) -> int:
        """The time in ms."""

    def group_partition(self) -> TopicPartition:
        """The partition of __consumer_offsets that has the group's offsets."""

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends, records of open transactions included."""

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The ends below which every transaction is decided."""

    def await_decided(self, ends: Offsets) -> Offsets:
        """Wait until every last stable offset has reached its end, and return them. Raises ``OffsetsUnstable``."""

    def log_starts(self, partitions: Collection[TopicPartition]) -> Offsets:
        """The first offsets that are still there."""

    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The committed offsets of the group, without those that open transactions have sent."""

    def batches(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> Mapping[TopicPartition, tuple[NamedBatch, ...]]:
        """The batches with an offset in ``[start, end)``, in order."""

    def group_records(self, start: int, end: int) -> tuple[GroupRecord, ...]:
        """The group's records in ``[start, end)`` of its partition, and the markers there, in order. Raises ``LookAgain`` where the cleaner has removed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLogs:
    """The logs that an application writes; ``between`` are its repartition topics, which it reads too."""

    changelogs: tuple[TopicPartition, ...]
    between: tuple[TopicPartition, ...]
    outputs: tuple[TopicPartition, ...] = ()

    @property
    def internal(self) -> tuple[TopicPartition, ...]:
        """Those that nobody else may write to."""
        return (*self.changelogs, *self.between)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The ``batches`` of a log from ``start`` on, below which all that is committed is in T. ``before``, ``after`` and ``ends`` are three of its ends,
    ``stable`` its last stable offset, and ``first`` the first offset that is still there: see above.
    """

    start: int
    before: int
    after: int
    ends: int
    stable: int
    first: int
    batches: tuple[NamedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedReadings:
    """One look. ``settled`` is N0, ``end`` is N, read right before ``captured_at`` (ms). ``known`` has the offsets that were committed in between, ``later``
    those at the end of the look.
    """

    settled: int
    end: int
    captured_at: int
    known: Mapping[TopicPartition, CommittedOffset]
    later: Mapping[TopicPartition, CommittedOffset]
    group: tuple[GroupRecord, ...]
    logs: Mapping[TopicPartition, LogTail]


def read_named(reader: NamedReader, logs: Collection[TopicPartition], *, patience: float, interval: float = 0.02) -> NamedReadings:
    """Read in the order above. ``logs`` are all that the application writes to. An open transaction of the group is waited for ``patience`` seconds, and asked
    for every ``interval`` seconds. Raises ``OffsetsUnstable``.
    """
    group = reader.group_partition()

    def end_of_group() -> int:
        return reader.high_watermarks([group])[group]

    begin = reader.last_stable_offsets([group])[group]
    starts = reader.last_stable_offsets(logs)
    reader.await_decided(reader.high_watermarks(logs))
    settled = end_of_group()
    known = reader.committed()
    _await_group(reader, begin, settled, patience, interval)
    before = reader.high_watermarks(logs)
    end, captured_at = end_of_group(), reader.clock()
    after, ends = reader.high_watermarks(logs), reader.high_watermarks(logs)
    stable = reader.await_decided(ends)
    until = reader.high_watermarks(logs)
    batches = reader.batches({tp: (starts[tp], until[tp]) for tp in logs})
    first = reader.log_starts(logs)
    tails = {
        tp: LogTail(
            start=starts[tp],
            before=before[tp],
            after=after[tp],
            ends=ends[tp],
            stable=stable[tp],
            first=first[tp],
            batches=batches[tp],
        )
        for tp in logs
    }
    later = reader.committed()
    records = reader.group_records(begin, end_of_group())
    return NamedReadings(settled=settled, end=end, captured_at=captured_at, known=known, later=later, group=records, logs=tails)


def _await_group(reader: NamedReader, begin: int, settled: int, patience: float, interval: float) -> None:
    """Wait until no transaction of the group is open that had sent offsets below ``settled``."""
    group = reader.group_partition()
    waited: set[int] = set()

    def decided() -> bool | None:
        waited.clear()
        for record in reader.group_records(begin, reader.high_watermarks([group])[group]):
            if record.marker is not None:
                waited.discard(record.producer_id)
            elif record.transactional and record.at < settled:
                waited.add(record.producer_id)
        return None if waited else True

    if not poll(decided, seconds=patience, interval=interval, what="open transactions of the group"):
        raise OffsetsUnstable(
            f"transactions that have sent offsets to {group} stayed open for {patience:.0f} s: producers {', '.join(map(str, sorted(waited)))}",
            next_step="run again. If they stay open, the preflight of a savepoint names them, and says what to do",
            producers=sorted(waited),
        )
