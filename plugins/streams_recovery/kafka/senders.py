"""What a writer hands its rows to: one librdkafka producer, by Python objects or by compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException, Message, Producer

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.segments.schema import header_lists

_ROWS_AT_ONCE: Final = 1000


class Delivered(NamedTuple):
    """What reports said: how many records lie where they were expected, one behind the other; and why the next one does not, if one was reported that does
    not: it, or the client, failed, or it lies at another offset. Behind that nothing counts.
    """

    rows: int
    failure: LibrdkafkaError | None = None
    misplaced: int | None = None


class Sender(Protocol):
    """An idempotent producer for one writer at a time, which takes away all reports before the next one begins."""

    def send(self, tp: TopicPartition, rows: pa.RecordBatch) -> Iterator[tuple[int, LibrdkafkaError | None]]:
        """Hand over rows of a segment, in order. After some of them it tells how many more were taken, and why the next one was not: when it is asked to go
        on, that one is tried again.
        """

    def delivered(self, seconds: float, expected: int) -> Delivered:
        """Take the reports that are there; wait so long for the first. The next record that is reported should be at the offset ``expected``."""

    def drop_waiting(self) -> None:
        """Forget what was handed over and is not acknowledged. What was sent may be in the log all the same."""

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


def _why(error: BufferError | KafkaException) -> LibrdkafkaError:
    return error.args[0] if isinstance(error, KafkaException) else LibrdkafkaError(LibrdkafkaError._QUEUE_FULL)  # noqa: SLF001
