"""Why every partition gets an offset, and why they are compared before the start: a table restored from its source topic ends where they say."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from tests.support.programs.java import STREAMS, command_of


@pytest.mark.fault("F48")
@pytest.mark.deep
def test_a_source_table_without_a_committed_offset_is_empty_and_nothing_tells(bootstrap: str, tmp_path: Path) -> None:
    connection = KafkaConnection.from_extra({"bootstrap.servers": bootstrap}, where="the tests' broker")
    name = f"table{uuid.uuid4().hex[:8]}"
    tp = TopicPartition(f"{name}.in", 0)

    def keys(state: str) -> int:
        argv = [*command_of(STREAMS / "SourceTable.java"), bootstrap, name, tp.topic, str(tmp_path / state)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=True)
        return int(done.stdout.split("KEYS ")[1])

    with KafkaCluster(connection, timeout=30) as cluster, ConsumerGroups(connection, timeout=30) as groups:
        cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"cleanup.policy": "compact"})
        try:
            producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
            for number in range(5):
                producer.produce(tp.topic, b"v", b"k%d" % number, tp.partition)
            assert producer.flush(30) == 0
            assert keys("without") == 0
            groups.wait_empty(name, 60)
            groups.set_offsets(name, {tp: CommittedOffset(offset=5, metadata="", leader_epoch=None)})
            assert keys("with") == 5
        finally:
            groups.wait_empty(name, 60)
            groups.delete(name)
            cluster.delete_topics([tp.topic])
