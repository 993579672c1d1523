"""Inputs that nothing carries to a site, or with other partitions than the savepoint has."""

from __future__ import annotations

import dataclasses

import pytest

from streams_recovery.core.kafka_types import TopicDescription, TopicPartition, TopicRole
from streams_recovery.core.preflight.checks import (
    inputs_there,
)
from streams_recovery.core.preflight.findings import PreflightSeverity
from streams_recovery.core.remedies.remedy import KafkaTools
from streams_recovery.core.repository.manifest import TopicImage
from tests.support.examples.savepoints import image, segment, topic

TOOLS = KafkaTools("k:9092", secured=False)


ROWS = image((segment(0, 10, [1, 2, 3]),))


def saved_topic(
    name: str, role: TopicRole = TopicRole.INPUT, *, partitions: int = 2, archived: bool = False, replicas: int = 1
) -> TopicImage:
    images = tuple(dataclasses.replace(ROWS, partition=number) for number in range(partitions))
    return dataclasses.replace(topic(images, name=name), role=role, archived=archived, replication_factor=replicas)


def there(partitions: int) -> TopicDescription:
    return TopicDescription(name="in", topic_id="x", partitions=partitions, replication_factor=1, config={}, leader_epochs=())


def found(image: TopicImage, described: dict[str, TopicDescription], *unseen: str) -> list[tuple[str, PreflightSeverity]]:
    return [(one.kind, one.severity) for one in inputs_there(TOOLS, {"in": image}, described, unseen, {})]


@pytest.mark.parametrize("role", list(TopicRole))
@pytest.mark.parametrize("archived", [True, False])
def test_what_is_read_must_be_there_or_in_the_savepoint(role: TopicRole, archived: bool) -> None:
    lacking = role in (TopicRole.INPUT, TopicRole.GLOBAL) and not archived
    expected = [("inputs", PreflightSeverity.BLOCKING)] if lacking else []
    assert found(saved_topic("orders", role, archived=archived), {}) == expected
    assert found(saved_topic("orders", role, archived=archived), {}, "in") == [], "it may be there"


@pytest.mark.parametrize(("partitions", "expected"), [(2, []), (1, ["partitions"]), (3, ["partitions"])])
def test_an_input_has_as_many_partitions_as_in_the_savepoint(partitions: int, expected: list[str]) -> None:
    assert [kind for kind, _ in found(saved_topic("orders"), {"in": there(partitions)})] == expected
    assert found(saved_topic("orders", TopicRole.OUTPUT), {"in": there(partitions)}) == []


@pytest.mark.remedy("site-partitions-mirrored")
@pytest.mark.parametrize(
    ("partitions", "ends", "says", "never"),
    [
        (1, {0: 0}, ". Give it 2: it was never written to there: kafka-topics.sh --bootstrap-server k:9092 --alter", "mirror"),
        (1, {0: 7}, "mirror it again from its beginning, into a topic that is created with 2 partitions", "kafka-topics.sh"),
        (1, {}, "mirror it again", "kafka-topics.sh"),
        (5, {}, "if the input has got 5 partitions since that savepoint, take one now", "kafka-topics.sh"),
        (5, dict.fromkeys(range(5), 0), "Kafka takes no partition away", "kafka-topics.sh"),
    ],
)
def test_what_to_do_about_other_partitions_is_possible_and_leaves_no_key_beside_its_state(
    partitions: int, ends: dict[int, int], says: str, never: str
) -> None:
    name = "primary.orders"
    found = {TopicPartition(name, number): end for number, end in ends.items()}
    [one] = inputs_there(TOOLS, {name: saved_topic("orders")}, {name: there(partitions)}, (), found)
    assert one.text.startswith(f"{name} has {partitions} partitions there and 2 in the savepoint, so keys would go to other tasks")
    assert says in str(one)
    assert never not in str(one)
    # Mirrored again into another one, which topic_map names: then the finding is gone.
    again = "primary.orders.again"
    assert inputs_there(TOOLS, {again: saved_topic("orders")}, {name: there(partitions), again: there(2)}, (), found) == ()
