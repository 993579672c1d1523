"""librdkafka's messages as rows of a segment."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import Message

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.segments.schema import SEGMENT_SCHEMA, Header, header_array


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as rows of a segment. Raises ``Refused`` for a header that cannot be kept."""
    stamps = [message.timestamp() for message in messages]
    return pa.record_batch(
        [
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp for _, stamp in stamps], pa.int64()),
            pa.array([kind - 1 for kind, _ in stamps], pa.int8()),  # the client counts from 0, not available, to 2, log append
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            header_array(headers_of(messages)),
        ],
        schema=SEGMENT_SCHEMA,
    )


def headers_of(messages: Sequence[Message]) -> list[list[Header] | None]:
    """The headers of each message. Raises ``Refused`` when the name of one is no UTF-8 text.

    confluent-kafka then returns a list with holes, and leaves an exception beside it. A call in Python does not look for that any more once it was
    specialized, and who takes such a list apart ends the process. ``map`` looks at the result of each call. Ask a message that was refused no second
    time: it hands out the same list without an exception.
    """
    found: list[list[Header] | None] = []
    try:
        found.extend(map(Message.headers, messages))  # type: ignore[arg-type]  # the stubs allow a mapping, and text in it
    except (SystemError, UnicodeDecodeError):
        bad = messages[len(found)]
        raise unreadable_header(TopicPartition(bad.topic() or "", bad.partition() or 0), bad.offset() or 0) from None
    return found


def unreadable_header(tp: TopicPartition, offset: int) -> Refused:
    """A header's name that is not UTF-8, as Kafka's own clients write and read it."""
    return Refused(
        f"{tp}: the record at offset {offset} has a header whose name is no UTF-8 text: it cannot be kept as it is",
        next_step="find out who writes such headers; leave the topic out, or delete records up to this one where nobody needs them",
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
    )


def size_of(message: Message) -> int:
    """Bytes of a message's key, value and headers. Raises as ``headers_of`` does."""
    (headers,) = headers_of([message])
    return len(message.key() or b"") + len(message.value() or b"") + sum(len(key) + len(value or b"") for key, value in headers or ())


def load_libraries() -> None:
    """What the first batch of a process needs: Arrow then loads pandas, which takes up to a second. For before somebody waits for it."""
    to_batch([])
