"""The plan's hash stands for what would be done: nothing more, and nothing less."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core import codec
from streams_recovery.core.model import Consistency, TopicRole
from streams_recovery.core.plan import Observed, OffsetToSet, PartitionLoad, RestorePlan, TopicToCreate
from streams_recovery.core.plan_text import markdown
from tests.unit.core.values import segment

FILE = segment(0, 5, [0, 4]).file
assert FILE is not None
TOPIC = TopicToCreate(
    name="orders-totals-changelog",
    role=TopicRole.CHANGELOG,
    replication_factor=3,
    held_config={"cleanup.policy": "compact", "retention.ms": "-1"},
    final_config={"cleanup.policy": "compact"},
    replaces_empty=None,
    partitions=(PartitionLoad(partition=0, files=(FILE,)), PartitionLoad(partition=1, files=())),
)
OFFSET = OffsetToSet(topic="orders", partition=0, offset=1_234, metadata="AgAA")
PLAN = RestorePlan(
    application_id="orders",
    savepoint_id="20261121T012345Z-0123456789",
    captured_at=1_795_224_225_000,
    consistency=Consistency.EXACT,
    create=(TOPIC,),
    offsets=(OFFSET,),
    warnings=(),
    observed=Observed(instances=("a (pid 1)",), offsets_before={"orders-0": 99}, records_to_catch_up=7_000),
)


def with_topic(**changes: object) -> RestorePlan:
    return replace(PLAN, create=(replace(TOPIC, **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, application_id="orders-eu"),
        replace(PLAN, savepoint_id="20261121T012346Z-0123456789"),
        replace(PLAN, captured_at=1),
        replace(PLAN, consistency=Consistency.AHEAD),
        replace(PLAN, create=()),
        replace(PLAN, offsets=()),
        replace(PLAN, offsets=(replace(OFFSET, offset=1_235),)),
        replace(PLAN, offsets=(replace(OFFSET, metadata="AgAB"),)),
        with_topic(name="another"),
        with_topic(replication_factor=2),
        with_topic(held_config={}),
        with_topic(final_config={}),
        with_topic(replaces_empty="an id"),
        with_topic(partitions=TOPIC.partitions[:1]),
        with_topic(partitions=(PartitionLoad(partition=0, files=(replace(FILE, sha256="1" * 64),)), TOPIC.partitions[1])),
    ],
)
def test_another_deed_has_another_hash(other: RestorePlan) -> None:
    assert other.hash != PLAN.hash


@pytest.mark.parametrize(
    "same",
    [
        replace(PLAN, observed=Observed(instances=(), offsets_before={}, records_to_catch_up=0)),
        replace(PLAN, warnings=("mind the gap",)),
        with_topic(held_config=dict(reversed(TOPIC.held_config.items()))),
        codec.loads(RestorePlan, codec.dumps(PLAN), where="a note"),
    ],
)
def test_what_was_only_seen_does_not_change_it(same: RestorePlan) -> None:
    assert same.hash == PLAN.hash


def test_a_person_reads_everything_that_will_happen() -> None:
    text = markdown(PLAN)
    for told in (
        "Restore `orders` from savepoint `20261121T012345Z-0123456789`",
        "2026-11-21 01:23:45 UTC",
        PLAN.hash[:12],
        "1 running instances (a (pid 1))",
        "| orders-totals-changelog | changelog | 2 | 2 | 20 | nothing |",
        "| orders-0 | 99 | 1234 |",
        "7,000 input records past the savepoint",
    ):
        assert told in text
    assert "Warning" not in text


def test_warnings_come_before_the_deeds() -> None:
    text = markdown(replace(PLAN, consistency=Consistency.AHEAD, warnings=("output is written again",)))
    assert text.index("counted twice") < text.index("output is written again") < text.index("1. **Stop**")


def test_a_page_stays_readable_however_many_partitions_there_are() -> None:
    many = replace(PLAN, offsets=tuple(replace(OFFSET, partition=number) for number in range(45)))
    text = markdown(many)
    assert "| orders-39 |" in text
    assert "| orders-40 |" not in text
    assert "| 5 more, all of them in `plan restore --json` | | |" in text
    assert "more, all of them" not in markdown(replace(many, offsets=many.offsets[:40]))
