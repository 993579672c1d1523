"""librdkafka's messages as rows of a segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array


def to_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages without errors as rows of a segment."""
    stamps = [message.timestamp() for message in messages]
    return pa.record_batch(
        [
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([stamp for _, stamp in stamps], pa.int64()),
            pa.array([kind - 1 for kind, _ in stamps], pa.int8()),  # the client counts from 0, not available, to 2, log append
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            header_array([message.headers() for message in messages]),  # type: ignore[misc]  # the stubs allow text in them
        ],
        schema=SEGMENT_SCHEMA,
    )


def size_of(message: Message) -> int:
    """Bytes of a message's key, value and headers."""
    headers: Any = message.headers() or ()  # the stubs allow a mapping too, which a message that was read never has
    return len(message.key() or b"") + len(message.value() or b"") + sum(len(key) + len(value or b"") for key, value in headers)


def load_libraries() -> None:
    """What the first batch of a process needs: Arrow then loads pandas, which takes up to a second. For before somebody waits for it."""
    to_batch([])
