"""What the changelogs of the example stand for: its state, also while the application is down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streams_recovery.core.kafka_types import TopicPartition
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
