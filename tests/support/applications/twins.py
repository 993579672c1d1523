"""Two equal applications without code: one for Kafka's reset tool, one for ours. Their topics, records, offsets and members are the same but for the id."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, Producer

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.names import internal_role
from streams_recovery.operations.context import RecoveryContext
from tests.support.applications.small import Small, small_application

# When the first record of the second input was written, and how far the records are apart.
BEGAN, STEP = 1_704_196_800_000, 1_000
STREAM_TIME = base64.b64encode(b"\x02" + BEGAN.to_bytes(8)).decode()
_COUNTS = (6, 3)


@dataclass(frozen=True)
class Twin:
    """An application with two inputs: ``first`` of one partition, with five records of now, four of which are processed; and ``second`` of two partitions,
    with six and three records of long ago, two and one of which are processed.
    """

    small: Small
    second: str

    @property
    def recovery(self) -> RecoveryContext:
        return self.small.recovery

    @property
    def id(self) -> str:
        return self.small.recovery.application_id

    @property
    def first(self) -> str:
        return self.small.input.topic

    @property
    def internal(self) -> tuple[str, ...]:
        return (self.small.changelog.topic, self.small.tail.topic)

    def named(self, text: str) -> str:
        """``text`` with the names of this application's topics in place of ``{first}``, ``{second}``, ``{changelog}`` and ``{repartition}``."""
        return text.format(first=self.first, second=self.second, changelog=self.internal[0], repartition=self.internal[1], id=self.id)

    def offsets(self) -> dict[str, tuple[int, str]]:
        """Every committed offset with its metadata, by partitions as both have them."""
        partitions = self.recovery.groups.committed_partitions(self.id)
        found = self.recovery.groups.committed(self.id, partitions) if partitions else {}
        return {self._plain(str(tp)): (one.offset, one.metadata) for tp, one in found.items() if one is not None}

    def internal_topics(self) -> set[str]:
        """Topics that are there and have the name of an internal topic of this application."""
        return {self._plain(name) for name in self.recovery.cluster.topic_names() if internal_role(name, self.id) is not None}

    def members(self) -> int:
        """How many members its group has."""
        return len(self.recovery.groups.describe(self.id).members)

    def _plain(self, text: str) -> str:
        assert text.startswith(self.id), text
        return f"app{text.removeprefix(self.id)}"


@contextmanager
def twin(bootstrap: str | Mapping[str, object], directory: Path) -> Iterator[Twin]:
    """One of the two. What it has made is gone at the end."""
    name = f"twin{uuid.uuid4().hex[:8]}"
    directory.mkdir(exist_ok=True)
    second = f"{name}.second"
    with small_application(bootstrap, directory, name=name, topics={"inputs": [f"{name}.in", second]}) as small:
        recovery = small.recovery
        recovery.cluster.create_topic(second, partitions=len(_COUNTS), replication_factor=1, config={"retention.ms": "-1"})
        producer = Producer(recovery.connection.client_config())
        for partition, count in enumerate(_COUNTS):
            for number in range(count):
                producer.produce(second, b"v", b"k%d" % number, partition, timestamp=BEGAN + number * STEP)
        assert producer.flush(30) == 0
        processed = {TopicPartition(second, 0): 2, TopicPartition(second, 1): 1}
        recovery.groups.set_offsets(
            name, {tp: CommittedOffset(offset=offset, metadata=STREAM_TIME, leader_epoch=None) for tp, offset in processed.items()}
        )
        yield Twin(small, second)
        recovery.cluster.delete_topics([second])


def leave_a_member(one: Twin) -> None:
    """A stream thread's consumer that has closed without leaving, as static members do. Its session lasts longer than anybody waits."""
    settings = {
        "group.id": one.id,
        "client.id": f"{one.id}-StreamThread-1-consumer",
        "group.instance.id": "one",
        "session.timeout.ms": 300_000,
        "enable.auto.commit": False,
    }
    consumer = Consumer(one.recovery.connection.client_config(**settings))
    consumer.subscribe([one.first])
    while not consumer.assignment():
        consumer.poll(0.2)
    consumer.close()
