"""Is a cut what its label says? Judged by folding the input below the committed offsets, with a consumer of the test's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer
from confluent_kafka import TopicPartition as Assigned

from streams_recovery.core.model import TopicPartition
from streams_recovery.savepoints.values import CutDraft
from streams_recovery.workbench import Workbench

Sums = dict[str, tuple[int, int]]


def problems(bench: Workbench, draft: CutDraft) -> list[str]:
    """What the changelogs up to the cut's ends hold besides, or instead of, the effects of the input below its committed offsets.

    ``order-totals`` and ``latest-orders`` are one step from the input. ``product-sales`` is behind a repartition topic: what its changelog
    lacks must be in the copied tail. The two tick stores move together or not at all.
    """
    application, stores = bench.application_id, ("order-totals", "latest-orders", "product-sales", "ticks-first", "ticks-second")
    changelogs = {store: f"{application}-{store}-changelog" for store in stores}
    ends = {
        cut.tp: (cut.committed.offset if cut.committed else 0) if topic.name == "orders" else cut.end
        for topic in draft.topics
        if topic.name in ("orders", *changelogs.values())
        for cut in topic.partitions
    }
    logs = _records(bench.connection.bootstrap_servers, ends)
    orders = [(key, json.loads(value)) for tp, log in logs.items() if tp.topic == "orders" for key, value in log if value is not None]
    # The same key may be in several partitions: each is a state of its own.
    raw = {store: {tp.partition: dict(log) for tp, log in logs.items() if tp.topic == topic} for store, topic in changelogs.items()}
    found = []
    if _sums(raw["order-totals"]) != _folded(orders):
        found.append("order-totals differs from the input below the committed offsets")
    if _state(raw["latest-orders"]) != dict(orders):
        found.append("latest-orders differs from the input below the committed offsets")
    unread = _folded(_tail(bench, draft, f"{application}-by-product-repartition"))
    if _added(_sums(raw["product-sales"]), unread) != _folded((str(order["product"]), order) for _, order in orders):
        found.append("product-sales with its unread tail differs from the input below the committed offsets")
    if not any(raw["ticks-first"].values()) or raw["ticks-first"] != raw["ticks-second"]:
        found.append(f"the tick stores differ: {raw['ticks-first']}, {raw['ticks-second']}")
    return found


def _records(bootstrap: str, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, list[tuple[str, bytes | None]]]:
    """Key and value of every committed record below each partition's end, in order within a partition."""
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
    logs: dict[TopicPartition, list[tuple[str, bytes | None]]] = {tp: [] for tp in ends}
    left = {tp for tp, end in ends.items() if end > 0}
    try:
        consumer.assign([Assigned(tp.topic, tp.partition, OFFSET_BEGINNING) for tp in left])
        while left:
            messages = consumer.consume(5_000, 20)
            assert messages, f"no answer about {left}"
            for message in messages:
                tp = TopicPartition(message.topic() or "", message.partition() or 0)
                if message.error() or message.offset() >= ends[tp]:
                    left.discard(tp)
                else:
                    logs[tp].append((message.key().decode(), message.value()))
    finally:
        consumer.close()
    return logs


def _state(partitions: dict[int, dict[str, bytes | None]]) -> dict[str, Any]:
    return {key: json.loads(value) for part in partitions.values() for key, value in part.items() if value is not None}


def _tail(bench: Workbench, draft: CutDraft, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for tail in draft.tails:
        if tail.topic == topic and tail.copied.file is not None:
            with pq.ParquetFile(bench.repository.open(tail.copied.file.key)) as file:
                for row in file.read(columns=["key", "value"]).to_pylist():
                    yield row["key"].decode(), json.loads(row["value"])


def _folded(orders: Iterable[tuple[str, dict[str, Any]]]) -> Sums:
    counts, cents = Counter[str](), Counter[str]()
    for key, order in orders:
        counts[key] += 1
        cents[key] += int(order["cents"])
    return {key: (counts[key], cents[key]) for key in counts}


def _sums(partitions: dict[int, dict[str, bytes | None]]) -> Sums:
    return {key: (int(value["count"]), int(value["cents"])) for key, value in _state(partitions).items()}


def _added(left: Sums, right: Sums) -> Sums:
    nothing = (0, 0)
    return {
        key: (left.get(key, nothing)[0] + right.get(key, nothing)[0], left.get(key, nothing)[1] + right.get(key, nothing)[1])
        for key in {*left, *right}
    }
