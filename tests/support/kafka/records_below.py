"""What the cluster holds below given ends, with a consumer of the tests' own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message
from confluent_kafka import TopicPartition as Assigned

from streams_recovery.core.kafka_types import TopicPartition


def records_below(
    bootstrap: str, ends: Mapping[TopicPartition, int], begins: Mapping[TopicPartition, int] | None = None
) -> Iterator[tuple[TopicPartition, Message]]:
    """Every committed record below each partition's end, from where it begins or from its first, in order within a partition."""
    begins = begins or {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    left = {tp for tp, end in ends.items() if end > begins.get(tp, 0)}
    try:
        consumer.assign([Assigned(tp.topic, tp.partition, begins.get(tp) or OFFSET_BEGINNING) for tp in left])
        heard = time.monotonic()
        while left:
            # It waits for as long as it may until it has as many as it may take.
            messages = consumer.consume(5_000, 0.1)
            heard = time.monotonic() if messages else heard
            assert time.monotonic() - heard < 60, f"no answer about {left}"
            for message in messages:
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if message.error() or (message.offset() or 0) >= ends[tp]:
                    left.discard(tp)
                else:
                    yield tp, message
    finally:
        consumer.close()
