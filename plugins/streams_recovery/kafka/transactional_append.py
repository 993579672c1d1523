"""Writing behind what several partitions have: all of it or nothing, and nothing of anybody else's in between."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Message, Producer

from streams_recovery.core.errors import OffsetsUnstable, RecoveryError, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.writer import LARGEST_MESSAGE
from streams_recovery.segments.schema import header_lists

ASK_SECONDS: Final = 60.0
# What brokers allow a transaction by default at most.
TRANSACTION_MS: Final = 900_000
_SERVE_EVERY: Final = 1000


def append(
    connection: KafkaConnection,
    transactional_id: str,
    ends: Mapping[TopicPartition, int],
    batches: Iterable[tuple[TopicPartition, pa.RecordBatch]],
) -> dict[TopicPartition, int]:
    """Write batches of segment rows to the ends of these partitions, in one transaction, as they are: key, value, headers, timestamp. Returns the
    records written to each.

    Raises ``Refused`` for a timestamp of 0, which this client would replace by the present time, and ``OffsetsUnstable`` when one of these partitions was
    written to since ``ends`` were read: nothing is written then. A consumer of committed records only, such as Kafka Streams under exactly-once, sees all or
    nothing; others may see records of an attempt that was given up.
    """
    attempt = _Attempt(connection, transactional_id, ends)
    try:
        attempt.begin()
        for tp, batch in batches:
            attempt.write(tp, batch)
        return attempt.commit()
    except KafkaException as error:
        raise errors.translated(error, connection, f"writing as {transactional_id}", timeout=ASK_SECONDS) from error
    finally:
        attempt.close()


class _Attempt:
    def __init__(self, connection: KafkaConnection, transactional_id: str, ends: Mapping[TopicPartition, int]) -> None:
        self._connection = connection
        self._ends = dict(ends)
        self._written = dict.fromkeys(ends, 0)
        self._failure: RecoveryError | LibrdkafkaError | None = None
        self._open = False
        self._producer = Producer(
            connection.client_config(
                **{
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": TRANSACTION_MS,
                    # librdkafka refuses one that is longer than the transaction's.
                    "message.timeout.ms": TRANSACTION_MS,
                    "message.max.bytes": LARGEST_MESSAGE,
                    "compression.type": "lz4",
                    "linger.ms": 20,
                }
            )
        )

    def begin(self) -> None:
        # Also aborts what a killed attempt under the same transactional id has left open.
        self._producer.init_transactions(ASK_SECONDS)
        self._producer.begin_transaction()
        self._open = True

    def write(self, tp: TopicPartition, batch: pa.RecordBatch) -> None:
        _check_no_zero(tp, batch)
        columns = [batch.column(name).to_pylist() for name in ("key", "value", "timestamp")]
        for at, (key, value, timestamp, pairs) in enumerate(zip(*columns, header_lists(batch.column("headers")), strict=True)):
            optional: dict[str, Any] = {} if pairs is None else {"headers": pairs}
            while True:
                try:
                    self._producer.produce(tp.topic, value, key, tp.partition, on_delivery=self._delivered, timestamp=timestamp, **optional)
                except BufferError:
                    self._producer.poll(0.1)
                    continue
                break
            if at % _SERVE_EVERY == 0:
                self._producer.poll(0)
                self._check()

    def commit(self) -> dict[TopicPartition, int]:
        # commit_transaction() would flush too, but then commit before anybody saw that a record came to another offset.
        self._producer.flush(TRANSACTION_MS / 1000)
        self._check()
        self._producer.commit_transaction(ASK_SECONDS)
        self._open = False
        return self._written

    def close(self) -> None:
        if self._open:
            # A broker that does not answer gives the transaction up by itself.
            with contextlib.suppress(KafkaException):
                self._producer.purge()
                self._producer.abort_transaction(ASK_SECONDS)

    def _delivered(self, error: LibrdkafkaError | None, message: Message) -> None:
        if self._failure is not None:
            return
        if error is not None:
            self._failure = error
            return
        tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
        expected = self._ends[tp] + self._written[tp]
        if message.offset() != expected:
            self._failure = OffsetsUnstable(
                f"another producer writes to {tp}: a record came to offset {message.offset()}, not to {expected}",
                next_step="nothing was written; stop the application that writes there for as long as this takes, and run this step again",
                topic=tp.topic,
                partition=tp.partition,
            )
        self._written[tp] += 1

    def _check(self) -> None:
        if isinstance(self._failure, RecoveryError):
            raise self._failure
        if self._failure is not None:
            raise KafkaException(self._failure)


def _check_no_zero(tp: TopicPartition, batch: pa.RecordBatch) -> None:
    zero = pc.index(batch.column("timestamp"), 0).as_py()
    if zero >= 0:
        raise Refused(
            f"{tp}: the record at offset {batch.column('offset')[zero].as_py()} of the results has timestamp 0, which no transaction here can write",
            next_step="nothing was written; process an interval that does not contain 1970-01-01T00:00:00Z, or leave the results side by side",
            topic=tp.topic,
            partition=tp.partition,
        )
