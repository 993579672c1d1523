"""The outputs of the example, record by record: each result is there once, none twice, and none is missing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message
from confluent_kafka import TopicPartition as Assigned

from embedded.demo.scene import Scene
from examples.order_processing.generator import OUTPUTS
from examples.order_processing.truth import Result, Results, result, results
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.outputs_behind import OutputsBehind
from streams_recovery.core.state.edit import default_partition

_READ_SECONDS = 60
# Results of a foreign-key join come through two repartition topics, and all of them are read when they are committed.
_SETTLE_SECONDS = 120.0
Skipped = Collection[tuple[TopicPartition, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The ``records`` of an output in numbers: those of a result that is there already (``twice``) and those ``of_no_order``; and ``missing`` results."""

    records: int
    twice: int
    missing: int
    of_no_order: int

    @property
    def right(self) -> bool:
        """True if each result is there once."""
        return self.records > 0 and self.twice == self.missing == self.of_no_order == 0

    @property
    def text(self) -> str:
        """The numbers, as a clause."""
        return f"{self.records:,} results, {self.twice:,} twice, {self.missing:,} missing, {self.of_no_order:,} of no order"


def compared(found: Iterable[Result], expected: Results) -> Compared:
    """The results of an output beside those that its orders cause."""
    counted = Counter(found)
    return Compared(
        records=counted.total(),
        twice=counted.total() - len(counted),
        missing=sum(1 for one, must in expected.items() if must and one not in counted),
        of_no_order=sum(count for one, count in counted.items() if one not in expected),
    )


def outputs_right(scene: Scene, *, skip: Skipped = ()) -> bool:
    """Whether each result of all orders fed so far is there once, in records that are not to ``skip``. They get a moment to settle."""
    partitions = scene.recovery.cluster.describe_topics(["orders"])["orders"].partitions
    expected = results(scene.generator.world, range(scene.generator.sent), lambda key: default_partition(key.encode(), partitions))
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        found = {output: compared(_results(scene.stack.bootstrap, output, skip), expected[output]) for output in OUTPUTS}
        right = all(one.right for one in found.values())
        if right or time.monotonic() > deadline:
            break
        time.sleep(2)
    for output, one in found.items():
        scene.teller.say(f"    {output}: {one.text}")
    return right


def offsets_of(listed: OutputsBehind | None) -> Skipped:
    """Partition and offset of all that a restore has listed."""
    outputs = () if listed is None else listed.outputs
    return {(one.tp, offset) for one in outputs for span in one.spans for offset in range(span.first, span.last + 1)}


def records_of(bootstrap: str, topic: str) -> Iterator[Message]:
    """The committed records of a topic up to its end. Raises ``ApplicationNotReady``."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "demonstration", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    try:
        left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([Assigned(topic, partition, OFFSET_BEGINNING) for partition in left])
        deadline = time.monotonic() + _READ_SECONDS
        while left:
            if time.monotonic() > deadline:
                raise ApplicationNotReady(f"{topic} could not be read", next_step="see the broker's log")
            for message in consumer.consume(5_000, 0.5):
                if message.error():
                    left.discard(message.partition())
                else:
                    yield message
    finally:
        consumer.close()


def _results(bootstrap: str, output: str, skip: Skipped) -> Iterator[Result]:
    for message in records_of(bootstrap, output):
        value, place = message.value(), (TopicPartition(output, message.partition() or 0), message.offset() or 0)
        if value is not None and place not in skip:
            yield result((message.key() or b"").decode(), json.loads(value))
