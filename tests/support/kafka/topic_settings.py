"""Settings of topics as somebody else changes them."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.logs import Changes


def alter(cluster: KafkaCluster, changes: Changes) -> None:
    """Set overrides of topics, and delete those whose value is None. Other overrides stay. Every broker shows them then."""
    for topic, wanted in changes.items():

        def unlike(found: Mapping[str, str], wanted: Mapping[str, str | None] = wanted) -> Mapping[str, str | None]:
            return {key: value for key, value in wanted.items() if found.get(key) != value}

        cluster.change_configs([topic], unlike)
