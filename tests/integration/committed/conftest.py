"""A group of its own on the tests' broker, members that join it, and members that die."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer

from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups

MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, group_id, topic, instance = sys.argv[1:]
settings = {"group.instance.id": instance} if instance else {}
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "client.id": "it-member", **settings})
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
while True:
    consumer.poll(1)
"""


@pytest.fixture(scope="module")
def groups(connection: KafkaConnection) -> Iterator[ConsumerGroups]:
    with ConsumerGroups(connection, timeout=20) as opened:
        yield opened


@pytest.fixture
def topic(connection: KafkaConnection) -> Iterator[str]:
    name = f"it.groups_{uuid.uuid4().hex[:8]}"
    with KafkaCluster(connection, timeout=20) as cluster:
        cluster.create_topic(name, partitions=3, replication_factor=1, config={})
        yield name
        cluster.delete_topics([name])


@pytest.fixture
def group_id(groups: ConsumerGroups, topic: str) -> Iterator[str]:
    name = topic.replace("it.groups_", "it-group.")
    yield name
    groups.wait_empty(name, 30, settle=0)
    groups.delete(name)
    assert groups.describe(name).kind == "absent"


@pytest.fixture
def join(connection: KafkaConnection, topic: str, group_id: str) -> Iterator[Callable[..., Consumer]]:
    joined: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        base: dict[str, object] = {
            "group.id": group_id,
            "client.id": "it-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(connection.client_config(**{**base, **settings}))
        joined.append(consumer)
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        return consumer

    yield make
    for consumer in joined:
        consumer.close()


@pytest.fixture
def crash(bootstrap: str, topic: str, group_id: str) -> Callable[..., None]:
    """A member whose process was killed: nothing leaves the group for it, and its session lasts 45 s."""

    def make(group_instance_id: str = "") -> None:
        command = [sys.executable, "-c", MEMBER, bootstrap, group_id, topic, group_instance_id]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"joined\n"
            finally:
                process.kill()

    return make
