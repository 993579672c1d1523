"""Counting what an application has left, on a real broker, while it reads and deletes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.rollout.discover import between
from tests.support.applications.small import small_application
from tests.support.applications.topic_records import delete_below, produce


class ReadMeanwhile(KafkaCluster):
    """Whoever asks where logs start has an old answer: the application deletes what it has read right after."""

    def __init__(self, recovery: RecoveryContext, below: int) -> None:
        super().__init__(recovery.connection)
        self._bench, self._below = recovery, below

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = super().log_starts(partitions)
        for tp in partitions:
            delete_below(self._bench, tp, self._below)
        return found


def test_records_that_are_deleted_while_they_are_counted_count_by_their_offsets(bootstrap: str, tmp_path: Path) -> None:
    with small_application(bootstrap, tmp_path) as small, ReadMeanwhile(small.recovery, below=3) as cluster:
        produce(small.recovery, small.tail, 4)
        found = between(replace(small.recovery, cluster=cluster), {small.tail: (1, 4)})
    assert found == {small.tail: 3}
