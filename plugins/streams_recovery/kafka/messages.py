"""librdkafka's messages as rows of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as rows of a segment."""
    stamps = [message.timestamp() for message in messages]
    with _headers_of(messages):
        headers = header_array([message.headers() for message in messages])  # type: ignore[misc]  # the stubs allow text in them
    return pa.record_batch(
        [
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp for _, stamp in stamps], pa.int64()),
            pa.array([kind - 1 for kind, _ in stamps], pa.int8()),  # the client counts from 0, not available, to 2, log append
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            headers,
        ],
        schema=SEGMENT_SCHEMA,
    )


def unreadable_header(tp: TopicPartition, first: int, last: int) -> Refused:
    """One of these records has a header whose name is not UTF-8, as Kafka's own clients write and read it."""
    return Refused(
        f"{tp}: a record at offsets {first} to {last} has a header whose name is no UTF-8 text: it cannot be kept as it is",
        next_step="find out who writes such headers; leave the topic out, or delete records up to this one where nobody needs them",
        topic=tp.topic,
        partition=tp.partition,
        first=first,
        last=last,
    )


def size_of(message: Message) -> int:
    """Bytes of a message's key, value and headers."""
    with _headers_of([message]):
        headers: Any = message.headers() or ()  # the stubs allow a mapping too, which a message that was read never has
        return len(message.key() or b"") + len(message.value() or b"") + sum(len(key) + len(value or b"") for key, value in headers)


@contextmanager
def _headers_of(messages: Sequence[Message]) -> Iterator[None]:
    try:
        yield
    except (SystemError, UnicodeDecodeError):
        # confluent-kafka's C code cannot decode a name, and Python notices that at once or some calls later: which record it was is not known.
        first, last = messages[0], messages[-1]
        where = TopicPartition(first.topic() or "", first.partition() or 0)
        raise unreadable_header(where, first.offset() or 0, last.offset() or 0) from None


def load_libraries() -> None:
    """What the first batch of a process needs: Arrow then loads pandas, which takes up to a second. For before somebody waits for it."""
    to_batch([])
