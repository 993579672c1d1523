"""A producer that is handed rows of a segment where they lie in memory, and whose reports are counted where they arrive."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterator

import pyarrow as pa
from confluent_kafka import KafkaError as LibrdkafkaError

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.exact_producer import Delivered
from streams_recovery.kafka.native.librdkafka import (
    EVENT_ERROR,
    EVENTS_OF_A_PRODUCER,
    PRODUCER,
    PURGE_IN_FLIGHT,
    PURGE_QUEUE,
    Batch,
    Column,
    Native,
    Reports,
)
from streams_recovery.segments.schema import SEGMENT_SCHEMA


class NativeSender:
    """A ``Sender`` of compiled code. ``note`` is told of each error that is about no record."""

    def __init__(self, native: Native, config: dict[str, object], note: Callable[[LibrdkafkaError], None]) -> None:
        """Raises ``KafkaException`` when the client does not take the settings."""
        self._native, self._note = native, note
        self._topics: dict[str, int] = {}
        conf = native.conf(config)
        native.rd_conf_set_events(conf, EVENTS_OF_A_PRODUCER)
        self._client = native.client(PRODUCER, conf)
        self._queue = native.rd_queue_get_main(self._client)

    def close(self) -> None:
        client, self._client = self._client, 0
        if not client:
            return
        for topic in self._topics.values():
            self._native.rd_topic_destroy(topic)
        self._native.rd_queue_destroy(self._queue)
        self._native.rd_destroy(client)

    def send(self, tp: TopicPartition, rows: pa.RecordBatch) -> Iterator[tuple[int, LibrdkafkaError | None]]:
        topic, batch, error, at = self._topic(tp.topic), _batch(rows), c.c_int(), 0
        while at < len(rows):
            reached = int(self._native.sr_produce(self._handle, topic, tp.partition, batch, at, len(rows), error))
            yield reached - at, self._why(error.value) if error.value else None
            at = reached

    def delivered(self, seconds: float, expected: int) -> Delivered:
        found, rows, failure, misplaced = Reports(), 0, None, None
        wait = int(seconds * 1000)
        while True:
            self._check_open()
            self._native.sr_reports(self._queue, wait, expected + rows, found)
            if failure is None and misplaced is None:
                rows += found.acknowledged
                failure = self._native.error(int(found.error)) if found.error else None
                misplaced = int(found.misplaced) if found.misplaced >= 0 else None
            if not found.other:
                return Delivered(rows, failure, misplaced)
            broken = self._event(found.other)
            failure, wait = failure or broken, 0

    def drop_waiting(self) -> None:
        self._native.rd_purge(self._handle, PURGE_QUEUE | PURGE_IN_FLIGHT)
        self.delivered(0, 0)

    def _topic(self, name: str) -> int:
        if name not in self._topics:
            self._topics[name] = self._native.rd_topic_new(self._handle, name.encode(), None)
        return self._topics[name]

    def _why(self, code: int) -> LibrdkafkaError:
        """The error for a code. If the client has broken down, its own words under a code that says only that, not under the code of the record at fault:
        reports of earlier records are still to come.
        """
        broken = None if code == LibrdkafkaError._QUEUE_FULL else self._broken_by()  # noqa: SLF001  # public in spite of its underscore
        return self._native.error(code) if broken is None else LibrdkafkaError(LibrdkafkaError._FATAL, broken.str())  # noqa: SLF001

    def _broken_by(self) -> LibrdkafkaError | None:
        """The error that broke the client down for good, in its own words, if any did."""
        text = c.create_string_buffer(512)
        code = self._native.rd_fatal_error(self._handle, text, len(text))
        return self._native.error(code, text.value) if code else None

    def _check_open(self) -> None:
        if not self._client:
            raise RuntimeError("this producer was closed")

    @property
    def _handle(self) -> int:
        self._check_open()
        return self._client

    def _event(self, event: int) -> LibrdkafkaError | None:
        """Take note of an event that is no report. Returns why the client has broken down, if that is what it says."""
        try:
            if self._native.rd_event_type(event) != EVENT_ERROR:
                return None
            error = self._native.error(self._native.rd_event_error(event), self._native.rd_event_error_string(event))
            if self._native.rd_event_error_is_fatal(event):
                return error
            self._note(error)
            return None
        finally:
            self._native.rd_event_destroy(event)


def _batch(rows: pa.RecordBatch) -> Batch:
    """The buffers of these rows. They must be kept for as long as this is used."""
    if not rows.schema.equals(SEGMENT_SCHEMA):
        raise TypeError(f"these are no rows of a segment: {rows.schema}")
    stamps = rows.column("timestamp")
    batch = Batch(timestamp=stamps.buffers()[1].address + 8 * stamps.offset)
    batch.key, batch.value = _column(rows.column("key")), _column(rows.column("value"))
    headers = rows.column("headers")
    if headers.null_count < len(headers):
        pairs = headers.values
        batch.headers = _column(headers)
        batch.header_key, batch.header_value = _column(pairs.field("key")), _column(pairs.field("value"))
    return batch


def _column(values: pa.Array) -> Column:
    # A column of headers has the buffers of its pairs behind these, and an empty column may have no buffer.
    valid, ends, data = (None if each is None else each.address for each in [*values.buffers(), None][:3])
    return Column(valid, ends, data, values.offset)
