"""A consumer of ranges whose records go from librdkafka's memory into Arrow's in one step."""

from __future__ import annotations

import ctypes as c
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.work import OffsetRange
from streams_recovery.kafka.native.librdkafka import (
    CONSUMER,
    Binary,
    GatherRange,
    GatherSizes,
    Heard,
    Message,
    Native,
    Rows,
    native,
)
from streams_recovery.kafka.range_consumer import (
    HAND_OVER_SECONDS,
    LEADER_SECONDS,
    MAX_BATCH_ROWS,
    NUL_IN_NAME,
    Arrived,
    RangeClient,
    ReadError,
    unreadable_header,
)
from streams_recovery.segments.schema import HEADER_TYPE, HEADERS_TYPE, SEGMENT_SCHEMA

# Offsets in Arrow's columns have 31 bits. More rows than this become a batch of their own; a record is never cut.
MOST_BYTES: Final = 256 << 20


class NativeReadingClient(RangeClient):
    """A ``RangeClient`` of compiled code. Only for processes where ``native()`` is not None."""

    _native: Native
    _client: int
    _queue: int

    def close(self) -> None:
        client, self._client = self._client, 0
        if client:
            # A message that is still held, because something was raised before it was destroyed, would have the client wait for it for ever.
            self._native.sr_destroy(self._messages, self._held)
            self._native.rd_queue_destroy(self._queue)
            self._native.rd_consumer_close(client)
            self._native.rd_destroy(client)
            self._hear()

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        with self._native.partitions(dict.fromkeys(partitions, None)) as wanted:
            self._native.checked(self._native.rd_position(self._handle, wanted))
            elements = wanted.contents.elements
            return {tp: int(elements[at].offset) for at, tp in enumerate(partitions)}

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        with self._native.partitions(dict.fromkeys(partitions, None)) as wanted:
            self._native.rd_pause_partitions(self._handle, wanted)

    def look_for_leader(self, tp: TopicPartition) -> None:
        topic, found = self._native.rd_topic_new(self._handle, tp.topic.encode(), None), c.c_void_p()
        try:
            with suppress(KafkaException):
                self._native.checked(self._native.rd_metadata(self._client, 0, topic, found, int(LEADER_SECONDS * 1000)))
                self._native.rd_metadata_destroy(found)
        finally:
            self._native.rd_topic_destroy(topic)

    def _open(self, config: dict[str, object]) -> None:
        found = native()
        if found is None:
            raise RuntimeError("there is no compiled code in this process")
        self._native = found
        self._messages = (c.c_void_p * MAX_BATCH_ROWS)()
        self._held, self._heard = c.c_int64(), Heard()
        conf = found.conf(config)
        found.listen(conf, self._heard)
        self._client = found.client(CONSUMER, conf)
        found.rd_poll_set_consumer(self._client)
        self._queue = found.rd_queue_get_consumer(self._client)

    def _assign(self, ranges: Collection[OffsetRange]) -> None:
        with self._native.partitions({each.tp: each.start for each in ranges}) as wanted:
            self._native.checked(self._native.rd_assign(self._handle, wanted))

    def _arrived(self, wanted: OffsetRange, rows: int) -> Arrived:
        count = self._consumed(HAND_OVER_SECONDS, rows)
        try:
            return self._gathered(count, wanted)
        finally:
            self._native.sr_destroy(self._messages, self._held)

    def _watermarks(self, tp: TopicPartition, timeout: float) -> tuple[int, int]:
        low, high = c.c_int64(), c.c_int64()
        code = self._native.rd_query_watermark_offsets(self._handle, tp.topic.encode(), tp.partition, low, high, int(timeout * 1000))
        self._native.checked(code)
        return low.value, high.value

    def _poll(self, seconds: float) -> None:
        self._consumed(seconds, 1)
        self._native.sr_destroy(self._messages, self._held)

    def _count_what_comes(self, seen: dict[TopicPartition, int]) -> None:
        count = self._consumed(HAND_OVER_SECONDS, MAX_BATCH_ROWS)
        try:
            for tp in seen:
                # All of them are at or behind the offset 0, so they are counted and not gathered.
                seen[tp] += int(self._measured(0, count, OffsetRange(tp, 0, 0))[1].handed_over)
        finally:
            self._native.sr_destroy(self._messages, self._held)

    def _consumed(self, seconds: float, rows: int) -> int:
        """The number of messages that are in ``_messages`` now, until they are destroyed."""
        self._check_open()
        self._native.sr_consume(self._queue, int(seconds * 1000), self._messages, min(rows, MAX_BATCH_ROWS), self._held)
        self._hear()
        return self._held.value

    def _gathered(self, count: int, wanted: OffsetRange) -> Arrived:
        batches, handed_over, beyond, unsure, failed, at = [], 0, False, False, [], 0
        while at < count:
            whose, sizes = self._measured(at, count, wanted)
            if sizes.cut >= 0:
                raise unreadable_header(wanted.tp, sizes.cut, NUL_IN_NAME)
            if sizes.rows:
                batches.append(_batch(self._native, c.byref(self._messages, at * c.sizeof(c.c_void_p)), whose, sizes))
                _check_headers(batches[-1], wanted.tp)
            if sizes.errors:
                failed += self._errors(at, at + sizes.messages, wanted.tp)
            handed_over, at = handed_over + sizes.handed_over, at + sizes.messages
            beyond, unsure = beyond or bool(sizes.beyond), unsure or bool(sizes.unsure)
        return Arrived(batches, handed_over, beyond, failed, ask_for_names=unsure)

    def _measured(self, at: int, count: int, wanted: OffsetRange) -> tuple[GatherRange, GatherSizes]:
        whose, sizes = GatherRange(wanted.tp.topic.encode(), wanted.tp.partition, wanted.end), GatherSizes()
        here = c.byref(self._messages, at * c.sizeof(c.c_void_p))
        self._native.sr_measure(here, count - at, whose, MOST_BYTES, sizes)
        return whose, sizes

    def _errors(self, at: int, end: int, tp: TopicPartition) -> list[ReadError]:
        found = []
        while (at := self._native.sr_next_error(self._messages, at, end)) < end:
            address = int(self._messages[at] or 0)
            message = Message.from_address(address)
            whose = (
                TopicPartition(self._native.rd_topic_name(message.topic).decode(), message.partition)
                if message.topic and message.partition >= 0
                else None
            )
            if whose in (tp, None):
                found.append(ReadError(self._native.error(message.err, self._native.rd_message_errstr(address)), message.offset))
            at += 1
        return found

    def _hear(self) -> None:
        """Take what the callbacks were told."""
        heard = self._heard
        if heard.statistics:
            self._statistics = c.string_at(heard.statistics, heard.statistics_bytes)
            text, heard.statistics = heard.statistics, None
            self._native.rd_mem_free(None, text)
        for failure in (heard.newest_of_one, heard.newest):
            if failure.code:
                self._keep_error(self._native.error(failure.code, failure.text))
                failure.code = 0

    def _check_open(self) -> None:
        if not self._client:
            raise RuntimeError("this consumer was closed")

    @property
    def _handle(self) -> int:
        self._check_open()
        return self._client


def _batch(native: Native, messages: Any, whose: GatherRange, sizes: GatherSizes) -> pa.RecordBatch:
    """The records that were measured, as rows of a segment."""
    rows, headers = sizes.rows, sizes.headers
    numbers = [pa.allocate_buffer(rows * width) for width in (8, 8, 1)]
    key = _Column(rows, sizes.null_keys, sizes.key_bytes)
    value = _Column(rows, sizes.null_values, sizes.value_bytes)
    out = Rows(*(each.address for each in numbers), key.binary, value.binary)
    if headers:
        lists = _Column(rows, rows, None)
        names = _Column(headers, 0, sizes.header_key_bytes)
        values = _Column(headers, sizes.null_header_values, sizes.header_value_bytes)
        out.headers, out.header_key, out.header_value = lists.binary, names.binary, values.binary
    native.sr_gather(messages, whose, sizes, out)
    columns = [
        pa.Array.from_buffers(kind, rows, [None, each]) for kind, each in zip((pa.int64(), pa.int64(), pa.int8()), numbers, strict=True)
    ]
    columns += [key.array(pa.binary()), value.array(pa.binary())]
    if headers:
        pairs = pa.StructArray.from_arrays([names.array(pa.string()), values.array(pa.binary())], fields=list(HEADER_TYPE))
        without = rows - sizes.with_headers
        columns.append(pa.Array.from_buffers(HEADERS_TYPE, rows, [lists.valid, lists.ends], null_count=without, children=[pairs]))
    else:
        columns.append(pa.nulls(rows, HEADERS_TYPE))
    return pa.record_batch(columns, schema=SEGMENT_SCHEMA)


def _check_headers(batch: pa.RecordBatch, tp: TopicPartition) -> None:
    headers = batch.column("headers")
    if headers.null_count == len(headers):
        return
    names = headers.values.field("key")
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        # Arrow names the header, not the record.
        data = names.cast(pa.binary())
        bad = next(at for at in range(len(data)) if not _is_text(data[at].as_py()))
        offset = batch.column("offset")[pc.list_parent_indices(headers)[bad].as_py()].as_py()
        raise unreadable_header(tp, offset) from None


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Column:
    """Buffers for so many values of so many bytes in all; ``size`` None for lists, which have none of their own."""

    def __init__(self, count: int, nulls: int, size: int | None) -> None:
        self.count, self.nulls = count, nulls
        self.valid = pa.allocate_buffer((count + 7) // 8) if nulls else None
        self.ends = pa.allocate_buffer((count + 1) * 4)
        self.data = None if size is None else pa.allocate_buffer(size)

    @property
    def binary(self) -> Binary:
        return Binary(*(None if each is None else each.address for each in (self.valid, self.ends, self.data)))

    def array(self, kind: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(kind, self.count, [self.valid, self.ends, self.data], null_count=self.nulls)
