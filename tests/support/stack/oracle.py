"""Is a cut what its label says? Judged by folding the input below the committed offsets, with a consumer of the test's own."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint.values import CutDraft
from tests.support.kafka.records_below import records_below

Sums = dict[str, tuple[int, int]]
Partitions = dict[int, dict[str, bytes | None]]
STORES = ("order-totals", "latest-orders", "product-sales", "ticks-first", "ticks-second")


class Read:
    """The input and the changelogs as far as they were read, folded. Reading goes on where it stopped: a later cut costs what came since."""

    def __init__(self, recovery: RecoveryContext) -> None:
        self.totals: Sums = {}
        self.latest: dict[str, dict[str, Any]] = {}
        self.sales: Sums = {}
        self.newest: dict[TopicPartition, int] = {}
        self.changelogs = {f"{recovery.application_id}-{store}-changelog": store for store in STORES}
        # The same key may be in several partitions: each is a state of its own.
        self.stores: dict[str, Partitions] = {store: {} for store in STORES}
        self._bootstrap = recovery.connection.bootstrap_servers
        self._ends: dict[TopicPartition, int] = {}

    def go_on(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read up to these ends."""
        assert all(ends[tp] >= end for tp, end in self._ends.items()), "a later cut ends before an earlier one"
        for tp, message in records_below(self._bootstrap, ends, self._ends):
            key, value = message.key().decode(), message.value()
            if tp.topic in self.changelogs:
                self.stores[self.changelogs[tp.topic]].setdefault(tp.partition, {})[key] = value
                continue
            self.newest[tp] = max(self.newest.get(tp, -1), message.timestamp()[1])
            if value is not None:
                order = json.loads(value)
                _count(self.totals, key, order)
                _count(self.sales, str(order["product"]), order)
                self.latest[key] = order
        self._ends = dict(ends)


def problems(recovery: RecoveryContext, draft: CutDraft, read: Read | None = None) -> list[str]:
    """What the changelogs up to the cut's ends hold besides, or instead of, the effects of the input below its committed offsets.

    ``order-totals`` and ``latest-orders`` are one step from the input. ``product-sales`` is behind a repartition topic: what its changelog
    lacks must be in the copied tail. The two tick stores move together or not at all. ``read`` is what was read for earlier cuts.
    """
    read = read or Read(recovery)
    read.go_on(
        {
            cut.tp: (cut.committed.offset if cut.committed else 0) if topic.name == "orders" else cut.end
            for topic in draft.topics
            if topic.name in ("orders", *read.changelogs)
            for cut in topic.partitions
        }
    )
    raw = read.stores
    found = _wrong_stream_times(draft, read.newest)
    if _sums(raw["order-totals"]) != read.totals:
        found.append("order-totals differs from the input below the committed offsets")
    if _state(raw["latest-orders"]) != read.latest:
        found.append("latest-orders differs from the input below the committed offsets")
    unread: Sums = {}
    for key, order in _tail(recovery, draft, f"{recovery.application_id}-by-product-repartition"):
        _count(unread, key, order)
    if _added(_sums(raw["product-sales"]), unread) != read.sales:
        found.append("product-sales with its unread tail differs from the input below the committed offsets")
    if not any(raw["ticks-first"].values()) or raw["ticks-first"] != raw["ticks-second"]:
        found.append(f"the tick stores differ: {raw['ticks-first']}, {raw['ticks-second']}")
    return found


def _wrong_stream_times(draft: CutDraft, newest: Mapping[TopicPartition, int]) -> list[str]:
    """Kafka Streams commits with every offset how far time had come in that partition: what is late after a restore hangs on it."""
    found = []
    for cut in next(topic for topic in draft.topics if topic.name == "orders").partitions:
        if cut.committed is None:
            continue
        # TopicPartitionMetadata: a version, then eight bytes.
        kept = int.from_bytes(base64.b64decode(cut.committed.metadata)[1:9], "big", signed=True) if cut.committed.metadata else None
        if kept != newest.get(cut.tp):
            found.append(f"the stream time of {cut.tp} is {kept}, the newest record below its committed offset has {newest.get(cut.tp)}")
    return found


def _state(partitions: Partitions) -> dict[str, Any]:
    return {key: json.loads(value) for part in partitions.values() for key, value in part.items() if value is not None}


def _tail(recovery: RecoveryContext, draft: CutDraft, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for tail in draft.tails:
        if tail.tp.topic == topic and tail.copied.file is not None:
            with pq.ParquetFile(recovery.repository.open(tail.copied.file.key)) as file:
                for row in file.read(columns=["key", "value"]).to_pylist():
                    yield row["key"].decode(), json.loads(row["value"])


def _count(sums: Sums, key: str, order: Mapping[str, Any]) -> None:
    count, cents = sums.get(key, (0, 0))
    sums[key] = (count + 1, cents + int(order["cents"]))


def _sums(partitions: Partitions) -> Sums:
    return {key: (int(value["count"]), int(value["cents"])) for key, value in _state(partitions).items()}


def _added(left: Sums, right: Sums) -> Sums:
    nothing = (0, 0)
    return {
        key: (left.get(key, nothing)[0] + right.get(key, nothing)[0], left.get(key, nothing)[1] + right.get(key, nothing)[1])
        for key in {*left, *right}
    }
