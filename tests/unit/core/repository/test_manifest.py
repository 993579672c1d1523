"""A manifest that does not describe a whole log is refused, not used in part."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository import stored_manifest
from streams_recovery.core.repository.manifest import (
    CopiedRange,
    Gap,
)
from streams_recovery.core.repository.segment_file import joined
from tests.support.examples.manifests import copied, manifest_with, partition
from tests.support.repository.stored import stored


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from(["rows", "nothing", "gap"])), min_size=1, max_size=8), st.integers(0, 100))
def test_pieces_that_meet_up_to_the_end_are_a_log(pieces: list[tuple[int, str]], start: int) -> None:
    ranges, gaps, began = [], [], start
    for length, what in pieces:
        end = start + length
        if what == "gap":
            gaps.append(Gap(start=start, end=end, reason="retention"))
        else:
            ranges.append(copied(start, end, rows=what == "rows"))
        start = end
    for log_start in (began, began + 1):
        whole = manifest_with(partition(ranges, gaps, end=start, log_start=log_start))
        assert stored(whole) == manifest_with(partition(list(joined(ranges)), gaps, end=start, log_start=log_start))
    if began > 0:
        with pytest.raises(Damaged, match="do not tile"):
            stored(manifest_with(partition(ranges, gaps, end=start, log_start=began - 1)))


@pytest.mark.parametrize(
    ("ranges", "gaps", "end"),
    [
        ([(0, 5), (6, 10)], [], 10),
        ([(0, 6), (5, 10)], [], 10),
        ([(0, 5), (0, 5)], [], 5),
        ([(0, 5)], [], 10),
        ([(0, 10)], [], 5),
        ([(0, 5)], [(6, 10)], 10),
        ([(0, 5)], [(4, 10)], 10),
    ],
)
def test_holes_and_overlaps_are_damaged(ranges: list[tuple[int, int]], gaps: list[tuple[int, int]], end: int) -> None:
    torn = partition([copied(*pair) for pair in ranges], [Gap(start=a, end=b, reason="r") for a, b in gaps], end=end)
    with pytest.raises(Damaged, match="orders-store-changelog-0"):
        stored(manifest_with(torn))


def test_offsets_alone_need_no_ranges() -> None:
    value = manifest_with(partition([], [], end=10), archived=False)
    assert stored(value).committed() == {TopicPartition("orders-store-changelog", 0): value.topics[0].partitions[0].committed}


@pytest.mark.parametrize(("start", "end"), [(5, 6), (3, 3), (-1, 2), (4, 4)])
def test_a_file_outside_its_range_is_damaged(start: int, end: int) -> None:
    file = copied(3, 6).file
    with pytest.raises(Damaged):
        CopiedRange(start=start, end=end, file=file)


@pytest.mark.parametrize("version", [0, 3, 4, 5, 6, 7, 11, True, "8", None])
def test_another_format_is_refused_by_its_number(version: object) -> None:
    plain = codec.encode(manifest_with()) | {"format_version": version, "something": "new"}
    with pytest.raises(Damaged, match=f"format version {version!r}"):
        stored_manifest.read(json.dumps(plain).encode(), where="manifest")


@pytest.mark.fault("F63")
def test_a_format_of_any_length_is_told_in_one_line() -> None:
    with pytest.raises(Damaged, match=r"format version \['x+") as caught:
        stored_manifest.read(json.dumps({"format_version": ["x" * 100_000]}).encode(), where="manifest")
    assert len(repr(caught.value.facts)) + len(str(caught.value)) < 600


GOOD = partition([copied(0, 5)], [], end=5)
TOPIC = "orders-store-changelog"


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"partitions": (replace(GOOD, leader_epoch=2**40),)}, f"the leader epoch {2**40} of {TOPIC}-0"),
        ({"partitions": (replace(GOOD, leader_epoch=-1),)}, f"the leader epoch -1 of {TOPIC}-0"),
        (
            {"partitions": (replace(GOOD, committed=CommittedOffset(offset=3, metadata="", leader_epoch=2**31)),)},
            f"the leader epoch {2**31} of {TOPIC}-0",
        ),
        ({"replication_factor": 0}, f"the replication factor 0 of {TOPIC}"),
        ({"replication_factor": 2**15}, f"the replication factor {2**15} of {TOPIC}"),
        ({"config": {"delete.retention.ms": "abc"}}, f"delete.retention.ms 'abc' for {TOPIC}"),
        ({"config": {"min.compaction.lag.ms": "1.5"}}, f"min.compaction.lag.ms '1.5' for {TOPIC}"),
        ({"config": {"retention.ms": "9" * 30}}, f"retention.ms '{'9' * 30}' for {TOPIC}"),
    ],
)
def test_numbers_that_kafka_does_not_have_are_damage_that_names_the_savepoint(changed: dict[str, Any], said: str) -> None:
    good = manifest_with(GOOD)
    assert stored(good) == good
    forged = replace(good, topics=(replace(good.topics[0], **changed),))
    with pytest.raises(Damaged, match=f"manifest.json.zst has {said}"):
        stored(forged)


def test_numbers_at_the_edge_are_read() -> None:
    good = manifest_with(replace(GOOD, leader_epoch=2**31 - 1))
    edge = replace(good, topics=(replace(good.topics[0], config={"retention.ms": "-1", "segment.ms": str(2**63 - 1), "x": "y"}),))
    assert stored(edge) == edge
