"""Names and partitions that come out of a repository are on the allow-list and there once, in manifests as in plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository import stored_manifest
from streams_recovery.core.repository.segment_file import SegmentFiles
from streams_recovery.core.restore.plan import RestorePlan, check_plan
from streams_recovery.core.restore.planned import TopicToDelete
from streams_recovery.core.restore.point_in_time import InPlace, LaterPartition, LaterTopic
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.examples.restore_plan import CUT, FILE, OFFSET, PAST, PLAN, TOPIC, with_part
from tests.support.repository.stored import stored

GOOD = manifest_with(partition([copied(0, 5)], [], end=5))
TWICE = "more than once"


def doctored(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A manifest that somebody has edited."""
    plain = json.loads(codec.dumps(GOOD))
    change(plain)
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda plain: plain["topics"][0].update(name="../x"), r"topic '\.\./x' is not allowed"),
        (lambda plain: plain["topics"][0].update(name="--delete"), "topic '--delete' is not allowed"),
        (lambda plain: plain.update(application_id="a/b"), "application id 'a/b' is not allowed"),
        (lambda plain: plain["topics"].append(plain["topics"][0]), f"has topic orders-store-changelog {TWICE}"),
        (lambda plain: plain["topics"][0]["partitions"].append(plain["topics"][0]["partitions"][0]), r"partitions \[0, 0\]"),
        (lambda plain: plain["topics"][0]["partitions"][0].update(partition=-1), "cannot be -1"),
        (lambda plain: plain["topics"][0]["partitions"][0].update(partition=7), r"partitions \[7\]"),
    ],
)
def test_a_manifest_with_a_strange_name_or_anything_twice_is_damaged(change: Callable[[dict[str, Any]], object], told: str) -> None:
    assert stored(GOOD) == GOOD
    with pytest.raises(Damaged, match=f"where-it-is.*{told}"):
        stored_manifest.read(doctored(change), where="where-it-is")


def later(*partitions: LaterPartition) -> InPlace:
    return InPlace(still_seconds=1, ends={}, later=(LaterTopic(name="orders", partitions=partitions),), groups=())


PART = LaterPartition(partition=0, files=SegmentFiles.of(()), cut=CUT)
ELSEWHERE = replace(FILE, key="another/segments/t/0/0.parquet")  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (replace(PLAN, create=(TOPIC, TOPIC)), TWICE),
        (replace(PLAN, delete=(TopicToDelete(name=TOPIC.name, topic_id="x"),)), TWICE),
        (replace(PLAN, delete=(TopicToDelete(name="a b", topic_id="x"),)), "'a b' is not allowed"),
        (replace(PLAN, offsets=(OFFSET, OFFSET)), f"offsets of orders-0 {TWICE}"),
        (replace(PLAN, offsets_kept=(OFFSET.tp,)), f"offsets of orders-0 {TWICE}"),
        (replace(PLAN, offsets=(replace(OFFSET, tp=TopicPartition("orders", -1)),)), "there is no such partition"),
        (replace(PLAN, create=(replace(TOPIC, partitions=(TOPIC.partitions[0], TOPIC.partitions[0])),)), r"partitions \[0, 0\]"),
        (replace(PLAN, source_application_id=".."), "application id '..' is not allowed"),
        (with_part(PAST, in_place=later(PART, PART)), f"records of orders-0 {TWICE}"),
        (with_part(PAST, in_place=later(replace(PART, files=SegmentFiles.of([ELSEWHERE])))), "is not below orders/segments/"),
        (replace(PLAN, source_application_id="another"), "is not below another/segments/"),
    ],
)
def test_so_is_a_plan(plan: RestorePlan, told: str) -> None:
    check_plan(PLAN, where="the plan")
    with pytest.raises(Damaged, match=told):
        check_plan(plan, where="the plan")
