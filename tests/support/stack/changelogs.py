"""The changelogs of the example: the state that they stand for, and a savepoint's rows beside what the cluster holds of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.operations.context import RecoveryContext
from tests.support.kafka.records_below import records_below

# Those whose changelogs have plain JSON; all but the first are behind repartition topics, that of a join by foreign keys among them.
STORES = ("order-totals", "product-sales", "region-totals", "enriched-orders")


def wrong_in_changelogs(recovery: RecoveryContext, expected: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """For each of these stores the number of keys that its changelog lacks, has besides, or has with another value than ``expected``."""
    return {store: _different(_stored(recovery, store), expected[store]) for store in STORES}


def _stored(recovery: RecoveryContext, store: str) -> dict[str, Any]:
    topic = f"{recovery.application_id}-{store}-changelog"
    partitions = [TopicPartition(topic, number) for number in range(recovery.cluster.describe_topics([topic])[topic].partitions)]
    records = records_below(recovery.connection.bootstrap_servers, recovery.cluster.high_watermarks(partitions))
    return {message.key().decode(): json.loads(message.value()) for _, message in records}


def _different(found: Mapping[str, Any], expected: Mapping[str, Any]) -> int:
    return sum(1 for key in {*found, *expected} if key not in found or key not in expected or found[key] != expected[key])


Row = tuple[int, bytes | None, bytes | None]


def rows_on_the_cluster(recovery: RecoveryContext, manifest: Manifest) -> dict[TopicPartition, list[Row]]:
    """Offset, key and value of every committed record of the changelogs below the savepoint's cut."""
    changelogs = [topic for topic in manifest.topics if topic.role is TopicRole.CHANGELOG]
    ends = {TopicPartition(topic.name, image.partition): image.end for topic in changelogs for image in topic.partitions}
    rows: dict[TopicPartition, list[Row]] = {tp: [] for tp in ends}
    for tp, message in records_below(recovery.connection.bootstrap_servers, ends):
        rows[tp].append((message.offset() or 0, message.key(), message.value()))
    return rows


def rows_in_the_savepoint(recovery: RecoveryContext, manifest: Manifest) -> dict[TopicPartition, list[Row]]:
    """The same of the savepoint, file after file as its manifest names them."""
    rows: dict[TopicPartition, list[Row]] = {}
    for topic in manifest.topics:
        for image in topic.partitions if topic.role is TopicRole.CHANGELOG else ():
            found = rows.setdefault(TopicPartition(topic.name, image.partition), [])
            for segment in image.files():
                with pq.ParquetFile(recovery.repository.open(segment.key)) as file:
                    table = file.read(columns=["offset", "key", "value"])
                found += zip(*(column.to_pylist() for column in table.columns), strict=True)
    return rows
