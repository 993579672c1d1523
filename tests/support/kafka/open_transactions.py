"""Transactions that follow each other without a gap on one log, so that no reading of its end falls between two of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from confluent_kafka import Producer

from streams_recovery.core.kafka_types import TopicPartition

_SECONDS = 30


@contextmanager
def transactions_without_gap(bootstrap: str, log: TopicPartition) -> Iterator[None]:
    """Keep a transaction open on ``log`` at every moment. Each is aborted soon, so that nobody who waits for its end waits for long."""
    first, second = (_producer(bootstrap) for _ in range(2))
    _begin(first, log)
    ended = Event()
    with ThreadPoolExecutor(1) as pool:
        relay = pool.submit(_relay, first, second, log, ended)
        try:
            yield
        finally:
            ended.set()
        relay.result()


def _relay(current: Producer, other: Producer, log: TopicPartition, ended: Event) -> None:
    while not ended.wait(0.1):
        _begin(other, log)
        current.abort_transaction(_SECONDS)
        current, other = other, current
    current.abort_transaction(_SECONDS)


def _producer(bootstrap: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"open-{uuid.uuid4().hex[:8]}", "log_level": 0})
    producer.init_transactions(_SECONDS)
    return producer


def _begin(producer: Producer, log: TopicPartition) -> None:
    """A transaction is open for a log as soon as a record of it is there."""
    producer.begin_transaction()
    producer.produce(log.topic, b"aborted", b"aborted", log.partition)
    assert producer.flush(_SECONDS) == 0
