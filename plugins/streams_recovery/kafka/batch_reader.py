"""Reading many small ranges at once. Only what goes well: a range that does not is left to be read by itself."""

# ruff: noqa: SLF001  # librdkafka's own error codes are public in spite of their underscore

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import Message

from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.read_ahead import OffsetRange
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.messages import size_of, to_batch
from streams_recovery.kafka.range_consumer import ReadingClient, partition_of

# What all ranges of a group may hold in memory. Those that are not read by then are read by themselves, as streams.
MOST_BYTES: Final = 32 << 20
QUIET_SECONDS: Final = 1.0
_ROWS_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """A range that was read to its end. ``received`` is librdkafka's count of its records, ``log_start`` was asked after the last of them."""

    messages: list[Message]
    received: int
    log_start: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its records, if there are any."""
        if self.messages:
            yield to_batch(self.messages)


@dataclass(slots=True)
class _Going:
    """A range that is being read."""

    wanted: OffsetRange
    position: int
    handed_over: int = 0
    kept: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> int:
        """Take a message without error; returns what it adds to memory."""
        self.handed_over += 1
        offset = message.offset() or 0
        if offset >= self.wanted.end:
            self.position = self.wanted.end
            return 0
        self.kept.append(message)
        return size_of(message)

    @property
    def done(self) -> bool:
        return self.position >= self.wanted.end


def read_at_once(
    client: ReadingClient,
    cluster: KafkaCluster,
    ranges: Collection[OffsetRange],
    *,
    most_bytes: int = MOST_BYTES,
    quiet_seconds: float = QUIET_SECONDS,
) -> dict[OffsetRange, ReadRange]:
    """Those of ``ranges``, each of another log, that could be read to their ends without an error, before ``most_bytes`` were read in all, and without
    a pause of ``quiet_seconds``. Raises nothing: whoever asks for one of the others meets what is wrong with it.
    """
    try:
        client.assign(ranges)
        done = _read(client, ranges, most_bytes, quiet_seconds)
        received = client.received({each.wanted.tp: each.handed_over for each in done}) if done else {}
        # After the last record of all of them.
        starts = cluster.log_starts([each.wanted.tp for each in done]) if done else {}
    except RecoveryError:
        return {}
    return {
        each.wanted: ReadRange(messages=each.kept, received=received[each.wanted.tp], log_start=starts[each.wanted.tp]) for each in done
    }


def _read(client: ReadingClient, ranges: Collection[OffsetRange], most_bytes: int, quiet_seconds: float) -> list[_Going]:
    going = {each.tp: _Going(each, each.start) for each in ranges}
    done: list[_Going] = []
    held, moved_at = 0, time.monotonic()
    while going and held < most_bytes and time.monotonic() - moved_at < quiet_seconds:
        before = {tp: each.position for tp, each in going.items()}
        messages = client.consume(_ROWS_AT_ONCE, f"reading {len(going)} partitions")
        for message in messages:
            held += _take(going, message)
        for tp, position in client.positions(going.keys()).items():
            going[tp].position = max(going[tp].position, position)
        _note_ends(going, messages)
        if messages or any(each.position > before[tp] for tp, each in going.items()):
            moved_at = time.monotonic()
        if finished := [each for each in going.values() if each.done]:
            client.pause([each.wanted.tp for each in finished])
            done += finished
            for each in finished:
                del going[each.wanted.tp]
    return done


def _take(going: dict[TopicPartition, _Going], message: Message) -> int:
    tp = partition_of(message)
    if tp is None or tp not in going:
        return 0  # of a range that ended already, or was given up
    error = message.error()
    if error is None:
        return going[tp].add(message)
    if error.code() != LibrdkafkaError._PARTITION_EOF:
        del going[tp]
    return 0


def _note_ends(going: dict[TopicPartition, _Going], messages: Collection[Message]) -> None:
    """The end of a log is the only sign of a position past records that were compacted away or aborted."""
    for message in messages:
        error, tp = message.error(), partition_of(message)
        if error is not None and tp in going and error.code() == LibrdkafkaError._PARTITION_EOF:
            going[tp].position = max(going[tp].position, message.offset() or 0)
