"""Writing records to one partition: in order, once, as they were, or an error. The writers of one task share its producers, one after the other."""
# ruff: noqa: SLF001  # librdkafka's own error codes are public in spite of their underscore

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError as LibrdkafkaError

from streams_recovery.core.errors import BrokerUnavailable, Damaged, PermanentError, RecoveryError, Refused, TargetNotEmpty, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.exact_producer import ExactProducer, PlainSender, Sender
from streams_recovery.kafka.native.librdkafka import native
from streams_recovery.kafka.native.writing import NativeSender

# What waits for acknowledgement, so the memory a writer takes; one record may be this large.
_IN_FLIGHT_KBYTES: Final = 128 << 10
_BATCH_BYTES: Final = 1_000_000
# The largest that librdkafka accepts for message.max.bytes.
LARGEST_MESSAGE: Final = 1_000_000_000
ASK_SECONDS: Final = 30.0

_DEFAULT_MAX_MESSAGE_BYTES: Final = 1_048_588
_REASON_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Rows that the broker acknowledged. The offsets are those of the first and last row, None when nothing was written."""

    rows: int
    first: int | None
    last: int | None


class PartitionWriter:
    """Writes batches to one partition, idempotently and with acks from all replicas. A context manager: ``write`` as often as needed, then ``finish``.

    Key, value, headers and timestamp are kept: nulls, duplicates, order, and times of 0 and before too. The first error that is reported for a record
    drops everything that waits and raises; nothing counts as written unless ``finish`` returned. Records that had been sent may be in the partition all the
    same, so after an error the topic has to be looked at or created again. No other producer may write to the partition meanwhile.

    Raises ``TargetNotEmpty`` when the partition does not end at ``expected_end``, ``Refused`` for records that cannot be written as they
    are, ``Damaged`` when the acknowledged offsets are not one run from ``expected_end`` on, and ``BrokerUnavailable`` after
    ``stall_seconds`` without an acknowledgement.
    """

    def __init__(
        self,
        producers: Producers,
        tp: TopicPartition,
        *,
        expected_end: int,
        stall_seconds: float = 120.0,
    ) -> None:
        self._producers = producers
        self._tp = tp
        self._expected_end = expected_end
        self._stall_seconds = stall_seconds
        self._producer: Sender | None = None
        self._limit = _DEFAULT_MAX_MESSAGE_BYTES
        self._sent = 0
        self._acknowledged = 0
        self._moved_at = 0.0

    def __enter__(self) -> Self:
        end = self._producers.cluster.high_watermarks([self._tp])[self._tp]
        self._limit = self._producers.cluster.max_message_bytes(self._tp.topic)
        if end != self._expected_end:
            raise self._fact(
                TargetNotEmpty,
                f"{self._tp} ends at {end}, not at {self._expected_end}: {end - self._expected_end} records were written by someone else",
                "stop the program that writes to it, then resume the restore",
                end=end,
                expected_end=self._expected_end,
            )
        self._producer = self._producers.taking(self._limit)
        self._moved_at = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        waiting = self._acknowledged < self._sent
        self._drop_waiting()
        self._producer = None
        # Reports of what waited may come after the next writer has begun, which would take them for its own.
        if error is not None or waiting:
            self._producers.forget(self._limit)

    def write(self, batch: pa.RecordBatch) -> None:
        """Hand one batch of segment rows to the client; blocks while too much waits for acknowledgement."""
        check_sizes(batch, self._tp, self._limit)
        # All from the first to the last of these rows goes the slow way: each change of producer waits for every acknowledgement.
        zeros = pc.indices_nonzero(pc.equal(batch.column("timestamp"), 0))
        first, behind = (zeros[0].as_py(), zeros[-1].as_py() + 1) if len(zeros) else (len(batch), len(batch))
        self._write(batch.slice(0, first))
        self._write_exactly(batch.slice(first, behind - first))
        self._write(batch.slice(behind))

    def finish(self) -> Written:
        """Wait until everything is acknowledged, and check that it became one run of offsets."""
        self._settle()
        if not self._sent:
            return Written(rows=0, first=None, last=None)
        return Written(rows=self._sent, first=self._expected_end, last=self._expected_end + self._sent - 1)

    def _settle(self) -> None:
        while self._acknowledged < self._sent:
            self._serve(0.1)

    def _write_exactly(self, batch: pa.RecordBatch) -> None:
        """Write what librdkafka would change: a timestamp of 0. Both clients number what they send by themselves, so nothing of the other may wait."""
        if not len(batch):
            return
        self._settle()
        before = self._sent
        room = batch_bytes(self._limit)
        sending = self._producers.exact.send(self._tp, batch, batch_bytes=room, stall_seconds=self._stall_seconds)
        try:
            for offset, rows in sending:
                if offset != self._expected_end + self._acknowledged:
                    raise self._misplaced(offset)
                self._sent += rows
                self._acknowledged += rows
        except TransientError as error:
            raise self._stalled(len(batch) - (self._sent - before), error.reason) from error
        except PermanentError as error:
            code = error.facts.get("code")
            if not isinstance(code, int):
                raise
            raise self._not_taken(Refused, error.reason, error_name=errors.name_of(code)) from error
        self._moved_at = time.monotonic()

    def _write(self, batch: pa.RecordBatch) -> None:
        at = 0
        for taken, error in self._client.send(self._tp, batch):
            self._sent += taken
            at += taken
            if error is None:
                self._serve(0)
            else:
                self._not_taken_now(batch, at, error)

    def _not_taken_now(self, batch: pa.RecordBatch, at: int, error: LibrdkafkaError) -> None:
        """Row ``at`` was not taken. Makes room when that is why, and raises otherwise."""
        if error.code() == LibrdkafkaError._QUEUE_FULL and self._acknowledged < self._sent:
            self._serve(0.1)
            return
        if error.code() == LibrdkafkaError._FATAL:
            self._wait_for_reason()
        if error.code() in (LibrdkafkaError._QUEUE_FULL, LibrdkafkaError.MSG_SIZE_TOO_LARGE):
            raise self._too_large(batch, at)
        raise self._not_delivered(error)

    def _wait_for_reason(self) -> None:
        """A client that has broken down refuses every record and tells why, once, on its way through ``poll``."""
        give_up = time.monotonic() + _REASON_SECONDS
        while time.monotonic() < give_up:
            self._serve(0.1)

    def _misplaced(self, offset: int | None) -> RecoveryError:
        expected = self._expected_end + self._acknowledged
        return self._fact(
            Damaged,
            f"{self._tp}: row {self._acknowledged} was written at offset {offset}, not at {expected}: someone else writes to this partition",
            "stop the program that writes to it, then resume the restore",
            offset=offset,
            expected=expected,
        )

    def _serve(self, seconds: float) -> None:
        """Take delivery reports. Raises what one of them said, or that none comes."""
        found = self._client.delivered(seconds, self._expected_end + self._acknowledged)
        self._acknowledged += found.rows
        if found.failure is not None or found.misplaced is not None:
            self._drop_waiting()
            raise self._not_delivered(found.failure) if found.failure is not None else self._misplaced(found.misplaced)
        if found.rows or self._acknowledged == self._sent:
            self._moved_at = time.monotonic()
        elif time.monotonic() - self._moved_at > self._stall_seconds:
            self._drop_waiting()
            raise self._stalled(self._sent - self._acknowledged, self._producers.last_error)

    def _stalled(self, waiting: int, why: str) -> RecoveryError:
        brokers = self._producers.connection.bootstrap_servers
        behind = f"{waiting} rows wait behind offset {self._expected_end + self._acknowledged}"
        return self._fact(
            BrokerUnavailable,
            f"{self._tp}: no acknowledgement from {brokers} for {self._stall_seconds:g} s, {behind}. {why}".strip(),
            "check that the brokers run and have enough replicas in sync; then resume the restore",
            brokers=brokers,
            seconds=self._stall_seconds,
            waiting=waiting,
        )

    def _not_delivered(self, error: LibrdkafkaError) -> RecoveryError:
        kind: type[RecoveryError] = BrokerUnavailable if error.retriable() else Refused
        return self._not_taken(kind, f"{error.name()}: {error.str()}", error_name=error.name())

    def _not_taken(self, kind: type[RecoveryError], why: str, *, error_name: str) -> RecoveryError:
        next_step = "see the broker's log for the reason, then resume the restore"
        reason = (
            f"{self._tp}: row {self._acknowledged} of this load was not written (the topic's max.message.bytes is {self._limit}): {why}"
        )
        return self._fact(kind, reason, next_step, max_message_bytes=self._limit, error_name=error_name)

    def _too_large(self, batch: pa.RecordBatch, at: int) -> RecoveryError:
        offset, key, value = (batch.column(name)[at].as_py() for name in ("offset", "key", "value"))
        size = len(key or b"") + len(value or b"")
        return self._fact(
            Refused,
            f"{self._tp}: the record with archived offset {offset} has {size} bytes, more than a client can send",
            "restore without this topic",
            archived_offset=offset,
            bytes=size,
        )

    def _fact(self, kind: type[RecoveryError], reason: str, next_step: str, **facts: object) -> RecoveryError:
        return kind(
            reason, next_step=next_step, topic=self._tp.topic, partition=self._tp.partition, acknowledged=self._acknowledged, **facts
        )

    def _drop_waiting(self) -> None:
        if self._producer is not None and self._acknowledged < self._sent:
            self._producer.drop_waiting()

    @property
    def _client(self) -> Sender:
        if self._producer is None:
            raise RuntimeError("a PartitionWriter writes inside its with block")
        return self._producer


class Producers:
    """Idempotent producers of one cluster, one for each limit on what a topic takes, each made when first needed, and ``exact`` for what these cannot
    write. A context manager.

    A new one waits half a second for its id: librdkafka asks before it has a connection, and again when that time is over
    (``rd_kafka_idemp_pid_fsm``). With one for each partition a restore of a thousand would stand still for eight minutes.

    For one writer at a time, which leaves nothing waiting behind it. After an error the producer it came from is not used again.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self.connection = connection
        self.cluster = KafkaCluster(connection, timeout=ASK_SECONDS)
        self.exact = ExactProducer(connection, timeout=ASK_SECONDS)
        self.last_error = ""
        self._by_limit: dict[int, Sender] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for limit in list(self._by_limit):
            self.forget(limit)
        self.exact.close()
        self.cluster.close()

    def taking(self, limit: int) -> Sender:
        """The one for topics that take records of ``limit`` bytes."""
        if limit not in self._by_limit:
            config, compiled = self._config(limit), native()
            self._by_limit[limit] = (
                PlainSender(config, self._keep_error) if compiled is None else NativeSender(compiled, config, self._keep_error)
            )
        return self._by_limit[limit]

    def forget(self, limit: int) -> None:
        """The next writer gets a new one for this limit, and a new ``exact``."""
        if (sender := self._by_limit.pop(limit, None)) is not None:
            sender.close()
        self.exact.close()

    def _keep_error(self, error: LibrdkafkaError) -> None:
        self.last_error = error.str()

    def _config(self, limit: int) -> dict[str, object]:
        return self.connection.client_config(
            **{
                "enable.idempotence": True,
                "acks": "all",
                # Any error that would leave a gap stops the client for good, before it sends what came after.
                "enable.gapless.guarantee": True,
                # A record that times out is dropped while those behind it are written, idempotence or not: so none may time out.
                "message.timeout.ms": 0,
                # The broker judges what it gets, compressed; here only the batch must stay below the topic's limit.
                "message.max.bytes": LARGEST_MESSAGE,
                "batch.size": batch_bytes(limit),
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": _IN_FLIGHT_KBYTES,
            }
        )


def batch_bytes(limit: int) -> int:
    """The most bytes of a batch for a topic that takes records of ``limit`` bytes."""
    return max(1, min(_BATCH_BYTES, limit - 1000))


def check_sizes(batch: pa.RecordBatch, tp: TopicPartition, limit: int) -> None:
    """Raises ``Refused``, naming the first record, when one is too large for a topic that takes ``limit`` bytes (``max.message.bytes``). The broker
    counts what a batch has after compression, so only records that stay too large are refused.
    """
    key, value = (pc.fill_null(pc.binary_length(batch.column(name)), 0) for name in ("key", "value"))
    sizes = pc.add(key, value)
    if not len(sizes) or pc.max(sizes).as_py() <= limit:
        return
    for at in pc.indices_nonzero(pc.greater(sizes, limit)).to_pylist():
        size, parts = sizes[at].as_py(), (batch.column(name)[at].as_py() or b"" for name in ("key", "value"))
        # The codec of the producers.
        compressed = sum(len(pa.compress(part, codec="lz4", asbytes=True)) for part in parts)
        if compressed > limit:
            offset = batch.column("offset")[at].as_py()
            raise Refused(
                f"{tp}: the record with archived offset {offset} has {size} bytes, topic {tp.topic} takes {limit} (max.message.bytes)",
                next_step=f"raise max.message.bytes of topic {tp.topic} above {size}, then resume the restore, or run the same again: what was loaded stays",
                topic=tp.topic,
                partition=tp.partition,
                archived_offset=offset,
                bytes=size,
                max_message_bytes=limit,
            )
