"""What a site lacks: inputs that nobody carries there, and room for the state."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import TopicDescription, TopicRole
from streams_recovery.core.preflight.findings import PreflightSeverity
from streams_recovery.core.preflight.standby import bytes_to_make, inputs_there, space_there
from streams_recovery.core.repository.manifest import TopicImage
from tests.support.examples.savepoints import image, segment, topic

ROWS = image((segment(0, 10, [1, 2, 3]),))


def saved(name: str, role: TopicRole = TopicRole.INPUT, *, partitions: int = 2, archived: bool = False, replicas: int = 1) -> TopicImage:
    images = tuple(dataclasses.replace(ROWS, partition=number) for number in range(partitions))
    return dataclasses.replace(topic(images, name=name), role=role, archived=archived, replication_factor=replicas)


def there(partitions: int) -> TopicDescription:
    return TopicDescription(name="in", topic_id="x", partitions=partitions, replication_factor=1, config={}, leader_epochs=())


def found(image: TopicImage, described: dict[str, TopicDescription], *unseen: str) -> list[tuple[str, PreflightSeverity]]:
    return [(one.kind, one.severity) for one in inputs_there({"in": image}, described, unseen)]


@pytest.mark.parametrize("role", list(TopicRole))
@pytest.mark.parametrize("archived", [True, False])
def test_what_is_read_must_be_there_or_in_the_savepoint(role: TopicRole, archived: bool) -> None:
    lacking = role in (TopicRole.INPUT, TopicRole.GLOBAL) and not archived
    expected = [("inputs", PreflightSeverity.BLOCKING)] if lacking else []
    assert found(saved("orders", role, archived=archived), {}) == expected
    assert found(saved("orders", role, archived=archived), {}, "in") == [], "it may be there"


@pytest.mark.parametrize(("partitions", "expected"), [(2, []), (1, ["partitions"]), (3, ["partitions"])])
def test_an_input_has_as_many_partitions_as_in_the_savepoint(partitions: int, expected: list[str]) -> None:
    assert [kind for kind, _ in found(saved("orders"), {"in": there(partitions)})] == expected
    assert found(saved("orders", TopicRole.OUTPUT), {"in": there(partitions)}) == []


def test_it_names_both_counts() -> None:
    [one] = inputs_there({"primary.orders": saved("orders")}, {"primary.orders": there(5)}, ())
    assert one.text == "primary.orders has 5 partitions there and 2 in the savepoint"


def test_what_a_restore_writes_counts_with_its_replicas_and_only_what_it_makes() -> None:
    facts = ROWS.ranges.facts
    one = facts.rows * facts.payload_a_row
    assert one > 0
    state = saved("state", TopicRole.CHANGELOG, archived=True, replicas=3)
    images = {"state": state, "in": saved("orders", archived=True), "out": saved("out", TopicRole.OUTPUT)}
    assert bytes_to_make(images, ()) == 2 * one * 3 + 2 * one
    assert bytes_to_make(images, ("in", "state")) == 2 * one * 3, "state is made again, an input that is there is not"


@given(st.integers(0, 1 << 50), st.none() | st.integers(0, 1 << 50))
def test_too_little_space_blocks_and_tight_space_warns(needed: int, free: int | None) -> None:
    severities = [one.severity for one in space_there(needed, free)]
    if free is None or free >= 2 * needed:
        assert severities == []
    else:
        assert severities == [PreflightSeverity.BLOCKING if free < needed else PreflightSeverity.WARNING]
