"""Producers that a writer hands its rows to.

A ``Sender`` is a producer of librdkafka, by Python objects or by compiled code. It cannot send a timestamp of 0: librdkafka takes that for "none given" and
writes the present time instead. ``ExactProducer`` can. kafka-python's producer writes a 0 too, but no header without a value and no record without
key and value. Its record batches can have all of these, so only they and its connections are used, and sending is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Message, Producer
from kafka import errors as pure
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients, Deadline
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.segments.schema import Header, header_lists

Record = tuple[int, bytes | None, bytes | None, list[Header] | None]

_TOPIC: Final = ProduceRequest.TopicProduceData
_ALL_REPLICAS: Final = -1
_NO_TIMEOUT: Final = 60_000
# Versions that name a topic, not its id, and need no transaction.
_VERSIONS: Final = {"min_version": 3, "max_version": 9}
# Differences of timestamps in a batch are numbers of 64 bits.
_WIDEST: Final = 2**62
_SEQUENCES: Final = 2**31

_ROWS_AT_ONCE: Final = 1000


class Delivered(NamedTuple):
    """Result of reports. ``rows`` records lie where they were expected, one behind the other. The next one does not, if one was reported that does not:
    it, or the client, failed, or it lies at another offset. Behind that nothing counts.
    """

    rows: int
    failure: LibrdkafkaError | None = None
    misplaced: int | None = None


class Sender(Protocol):
    """An idempotent producer for one writer at a time, which takes away all reports before the next one begins."""

    def send(self, tp: TopicPartition, rows: pa.RecordBatch) -> Iterator[tuple[int, LibrdkafkaError | None]]:
        """Hand over rows of a segment, in order. After some of them it tells how many more were taken, and why the next one was not. When it is asked to
        go on, that one is tried again.
        """

    def delivered(self, seconds: float, expected: int) -> Delivered:
        """Take the reports that are there; wait so long for the first. The next record that is reported should be at the offset ``expected``."""

    def drop_waiting(self) -> None:
        """Forget the records that were handed over and are not acknowledged. Those that were sent may be in the log all the same."""

    def close(self) -> None:
        """Leave the brokers. It cannot be used again."""


class PlainSender:
    """A sender of Python objects: wherever there is no compiled code. ``note`` is told of each error that is about no record."""

    def __init__(self, config: dict[str, object], note: Callable[[LibrdkafkaError], None]) -> None:
        """Raises ``KafkaException`` when the client does not take the settings."""
        self._reports: list[tuple[LibrdkafkaError | None, int | None]] = []
        self._producer = Producer({**config, "error_cb": note})

    def close(self) -> None:
        self._reports.clear()

    def send(self, tp: TopicPartition, rows: pa.RecordBatch) -> Iterator[tuple[int, LibrdkafkaError | None]]:
        columns = [rows.column(name).to_pylist() for name in ("key", "value", "timestamp")]
        taken = 0
        for key, value, timestamp, headers in zip(*columns, header_lists(rows.column("headers")), strict=True):
            optional: dict[str, Any] = {} if headers is None else {"headers": headers}
            while True:
                try:
                    self._producer.produce(tp.topic, value, key, tp.partition, on_delivery=self._keep, timestamp=timestamp, **optional)
                except (BufferError, KafkaException) as error:
                    yield taken, _why(error)
                    taken = 0
                else:
                    taken += 1
                    break
            if taken == _ROWS_AT_ONCE:
                yield taken, None
                taken = 0
        yield taken, None

    def delivered(self, seconds: float, expected: int) -> Delivered:
        broken: LibrdkafkaError | None = None
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # the client has broken down and says why
            broken = error.args[0]
        found, self._reports = self._reports, []
        for rows, (failure, offset) in enumerate(found):
            if failure is not None:
                return Delivered(rows, failure)
            if offset != expected + rows:
                return Delivered(rows, misplaced=offset)
        return Delivered(len(found), broken)

    def drop_waiting(self) -> None:
        self._producer.purge(in_queue=True, in_flight=True, blocking=True)
        self.delivered(0, 0)

    def _keep(self, error: LibrdkafkaError | None, message: Message) -> None:
        self._reports.append((error, message.offset()))


class ExactProducer:
    """An idempotent producer that writes every record as it is, and waits for each batch before it sends the next one. So nothing is out of order, and
    nothing behind an error is sent. ``timeout`` in seconds bounds one request. For one thread at a time.
    """

    def __init__(self, connection: KafkaConnection, *, timeout: float) -> None:
        self._clients = Clients(connection, timeout=timeout)
        self._id: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def close(self) -> None:
        """Disconnect. The next batch is sent under a new producer id."""
        self._clients.close()
        self._id = None
        self._sequences.clear()
        self._leaders.clear()

    def send(
        self,
        tp: TopicPartition,
        rows: pa.RecordBatch,
        *,
        batch_bytes: int,
        stall_seconds: float,
    ) -> Iterator[tuple[int, int]]:
        """Write rows of a segment. Returns, for each batch that was acknowledged, the offset of its first record and how many it has.

        Raises ``TransientError`` when a batch was not acknowledged within ``stall_seconds``, and another error when the broker does not take it. Such a
        batch may be in the log all the same.
        """
        columns = [rows.column(name).to_pylist() for name in ("timestamp", "key", "value")]
        records: Iterable[Record] = zip(*columns, header_lists(rows.column("headers")), strict=True)
        for batch in batches(records, batch_bytes):
            yield self._acknowledged(tp, batch, Deadline(stall_seconds)), len(batch)

    def _acknowledged(self, tp: TopicPartition, batch: list[Record], deadline: Deadline) -> int:
        """The offset of the batch's first record. A repeated batch has the same sequence number, so the broker writes it once."""
        encoded: bytes | None = None
        while True:
            within = max(1, int(min(self._clients.timeout, deadline.remaining) * 1000))
            try:
                with self._clients.requesting(f"writing to {tp}"):
                    encoded = encoded or self._encoded(tp, batch, within)
                    offset = self._sent(tp, encoded, within)
            except TransientError:
                # The leader may be another one now, on a broker that this client has not heard of.
                self._leaders.clear()
                self._clients.close()
                if not deadline.pause():
                    raise
                continue
            self._sequences[tp] = (self._sequences.get(tp, 0) + len(batch)) % _SEQUENCES
            return offset

    def _encoded(self, tp: TopicPartition, batch: list[Record], within: int) -> bytes:
        producer_id, epoch = self._id = self._id or self._new_id(within)
        builder = DefaultRecordBatchBuilder(
            magic=2,
            # The other producer's lz4 is an extra package for kafka-python, and gzip is not.
            compression_type=DefaultRecordBatchBuilder.CODEC_GZIP,
            is_transactional=False,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(tp, 0),
            # More than any batch has: a record that passes this size is left out of the batch, and append() raises nothing.
            batch_size=2**31,
        )
        for at, (stamp, key, value, headers) in enumerate(batch):
            builder.append(at, stamp, key, value, headers or [])
        return bytes(builder.build())

    def _new_id(self, within: int) -> tuple[int, int]:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT, producer_id=-1, producer_epoch=-1, max_version=4
        )
        answer = self._clients.send(request, within_ms=within)
        _check(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def _sent(self, tp: TopicPartition, encoded: bytes, within: int) -> int:
        data = _TOPIC(name=tp.topic, partition_data=[_TOPIC.PartitionProduceData(index=tp.partition, records=encoded)])
        request = ProduceRequest(transactional_id=None, acks=_ALL_REPLICAS, timeout_ms=within, topic_data=[data], **_VERSIONS)
        answer = self._clients.send(request, self._leader(tp), within_ms=within)
        (found,) = answer.responses[0].partition_responses
        _check(found.error_code)
        return int(found.base_offset)

    def _leader(self, tp: TopicPartition) -> int:
        if tp not in self._leaders:
            (found,) = self._clients.pure.describe_topics([tp.topic])
            _check(found["error_code"])
            self._leaders |= {TopicPartition(tp.topic, one["partition_index"]): one["leader_id"] for one in found["partitions"]}
        return self._leaders[tp]


def batches(records: Iterable[Record], batch_bytes: int) -> Iterator[list[Record]]:
    """The records in order, in batches of ``batch_bytes`` before compression. A record that is larger has a batch of its own."""
    batch: list[Record] = []
    size = 0
    for record in records:
        stamp, key, value, headers = record
        grown = size + int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers or []))
        if batch and (grown > batch_bytes or abs(stamp - batch[0][0]) >= _WIDEST):
            yield batch
            batch, grown = [], grown - size
        batch.append(record)
        size = grown
    if batch:
        yield batch


def _check(code: int) -> None:
    # A broker that has just become the leader may not know the partition yet.
    if code == errors.UNKNOWN_TOPIC_OR_PARTITION:
        raise pure.LeaderNotAvailableError
    if code:
        raise pure.for_code(code)


def _why(error: BufferError | KafkaException) -> LibrdkafkaError:
    return error.args[0] if isinstance(error, KafkaException) else LibrdkafkaError(LibrdkafkaError._QUEUE_FULL)  # noqa: SLF001
