"""What has to be true of a log that is cut where it is, and what a quarantine says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.jobs.spec import CutBy, RowCut
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.repository.manifest import Gap
from streams_recovery.core.repository.segment_files import SegmentFiles
from streams_recovery.core.restore.in_place import (
    LaterPartition,
    LaterTopic,
    MovedOffset,
    OtherGroup,
    QuarantineEntry,
    check_stood_still,
    quarantine_of,
    uncovered,
)
from tests.support.examples.savepoints import image, segment

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        (0, 10, None),
        (3, 10, None),
        (0, 11, "t-0 ends at 11 and is archived up to 10"),
        (0, 9, "t-0 ends at 9 and is archived up to 10"),
    ],
)
def test_a_log_is_covered_from_its_first_offset_to_its_last(start: int, end: int, why: str | None) -> None:
    assert uncovered(TP, image((segment(0, 10, [0, 4, 9]),)), start, end) == why


def test_a_log_that_begins_before_its_archive_is_not_covered() -> None:
    archive = image((segment(5, 10, [5]),), start=5)
    assert uncovered(TP, archive, 4, 10) == "t-0 begins at 4 and is archived from 5"
    assert uncovered(TP, archive, 5, 10) is None
    assert uncovered(TP, image((), end=10), 0, 10) == "t-0 begins at 0 and is archived from 10"
    assert uncovered(TP, image((), start=10, end=10), 10, 10) is None, "nothing is in it"


def test_a_gap_counts_as_long_as_the_log_may_have_its_records() -> None:
    archive = replace(image((segment(0, 4, [0, 3]), segment(6, 10, [6]))), gaps=(Gap(start=4, end=6, reason="too late"),))
    assert uncovered(TP, archive, 0, 10) == "offsets 4..5 of t-0 are missing from the archive (too late)"
    assert uncovered(TP, archive, 5, 10) is not None
    assert uncovered(TP, archive, 6, 10) is None


@given(
    seen=st.dictionaries(st.sampled_from([TP, OTHER]), st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2))), min_size=1),
    then=st.dictionaries(st.sampled_from([TP, OTHER]), st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 2))), min_size=1),
)
def test_logs_stood_still_only_when_two_looks_saw_the_same(
    seen: dict[TopicPartition, tuple[int, tuple[int]]], then: dict[TopicPartition, tuple[int, tuple[int]]]
) -> None:
    check_stood_still(seen, seen, 30)
    if seen == then:
        check_stood_still(seen, then, 30)
        return
    moved = [str(tp) for tp in (TP, OTHER) if seen.get(tp) != then.get(tp)]
    with pytest.raises(Refused) as caught:
        check_stood_still(seen, then, 30)
    assert caught.value.facts == {"topics": moved}


def test_having_looked_at_nothing_proves_nothing() -> None:
    with pytest.raises(Refused, match="no log was looked at"):
        check_stood_still({}, {}, 30)


PART = LaterPartition(
    partition=0, files=SegmentFiles.of(()), cut=RowCut(by=CutBy.TIMESTAMP, moment=7, first_later=3, rows=2, late=0, rest=True)
)
ASIDE = QuarantineEntry(
    kind="set-aside",
    at=1,
    run="r",
    savepoint_id="s",
    moment=7,
    topics=(LaterTopic(name="t", partitions=(PART, replace(PART, partition=1))),),
)


def test_a_quarantine_is_what_its_entries_say() -> None:
    with pytest.raises(NotFound, match="no input aside") as caught:
        quarantine_of("x", ())
    assert caught.value.facts == {"restore": "x"}
    aside = quarantine_of("x", (ASIDE,))
    assert (aside.savepoint_id, aside.moment, aside.begun, aside.appended_at) == ("s", 7, None, None)
    assert [topic.rows for topic in aside.topics] == [4]
    begun = replace(ASIDE, kind="begins", at=2, topics=(), ends={TopicPartition("t", 0): 9})
    assert quarantine_of("x", (ASIDE, begun)).begun == {TopicPartition("t", 0): 9}
    done = quarantine_of("x", (ASIDE, begun, replace(begun, kind="appended", at=3, ends=None)))
    assert (done.appended_at, done.topics) == (3, aside.topics)


def test_an_entry_comes_back_from_the_repository_as_it_was() -> None:
    begun = replace(ASIDE, kind="begins", topics=(), ends={TopicPartition("t", 0): 9})
    for entry in (ASIDE, begun):
        assert codec.loads(QuarantineEntry, codec.dumps(entry), where="test") == entry


NONE: frozenset[str] = frozenset()
INPUT = frozenset({"t"})


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"reads": INPUT, "members": ("m",)}, ["group g has members of t (m): stop them"]),
        ({"reads": INPUT, "members": ("m",), "named": True}, ["group g has members of t (m): stop them"]),
        ({"reads": INPUT, "shares": INPUT, "members": ("m",), "named": True}, ["group g has members of t (m): stop them"]),
        ({"committed": (TP,), "members": ("m",), "named": True}, ["group g has members (m): stop them"]),
        ({"committed": (TP,)}, ["group g has read t: name it (groups) to move it too"]),
        ({"shares": INPUT}, ["group g has read t: name it (groups) to move it too"]),
        ({"shares": INPUT, "named": True}, []),
        ({"committed": (TP,), "named": True}, []),
        ({"reads": None, "members": ("m",)}, ["what the members of group g read cannot be told (m): stop them, or name it (groups)"]),
        ({"reads": None, "members": ("m",), "named": True}, []),
        ({"reads": None, "committed": (TP,), "members": ("m",), "named": True}, ["group g has members (m): stop them"]),
        ({"members": ("m",)}, []),
    ],
)
def test_a_live_reader_blocks_and_naming_is_for_those_that_are_stopped_or_cannot_be_seen(group: dict[str, Any], said: list[str]) -> None:
    known = {"name": "g", "reads": NONE, "committed": (), "shares": NONE, "members": (), "named": False, **group}
    assert OtherGroup(**known).problems == said


@pytest.mark.parametrize(("again", "metadata"), [(0, "AgAAAY"), (1, "")])
def test_an_offset_that_goes_back_loses_the_stream_time_that_covers_what_is_read_again(again: int, metadata: str) -> None:
    known = CommittedOffset(offset=7, metadata="AgAAAY", leader_epoch=3)
    assert MovedOffset.of("g", TP, known, offset=7 - again, again=again).wanted.metadata == metadata
