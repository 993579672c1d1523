"""Places as a plan holds them: which offsets they allow, and when the same offset is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.mirrored_input import (
    Doubt,
    ExactPlace,
    InputPlace,
    KnownFrom,
    LogRecord,
    MirroredLog,
    SameOffset,
    Stretch,
    UnprovenPlace,
    Window,
    check_exact,
    same_offset,
    sample_starts,
)

OLD, NEW = TopicPartition("orders", 0), TopicPartition("primary.orders", 0)
EXACT = ExactPlace(offset=70, lowest=68, highest=70, before=40, behind=30, first=(10, 20), last=(99, 109), timestamps=True, compacted=False)
LATE = UnprovenPlace(doubt=Doubt.NOT_CARRIED, records=3, by_time=50)
LOST = UnprovenPlace(doubt=Doubt.LOST, records=3, by_time=None)
SAME = SameOffset(offset=60, compared=100, stretches=2, first=10, last=109)


def placed(place: ExactPlace | SameOffset | UnprovenPlace, number: int = 0) -> InputPlace:
    return InputPlace(
        source=OLD._replace(partition=number),
        target=NEW._replace(partition=number),
        committed=60,
        known_from=KnownFrom.SAVEPOINT,
        read=500,
        place=place,
    )


@pytest.mark.parametrize("place", [EXACT, SAME, LATE, LOST])
def test_a_plan_holds_it(place: ExactPlace | SameOffset | UnprovenPlace) -> None:
    one = placed(place)
    assert codec.loads(InputPlace, codec.dumps(one), where="a plan") == one


def test_it_says_where_it_is_and_why() -> None:
    assert placed(EXACT).words == (
        "offset 60 of orders-0 is offset 70 of primary.orders-0: 40 records in front of it and 30 behind it stand in both logs in the same order "
        "by key, value, headers and timestamp: old offsets 10 to 99 are 20 to 109"
    )
    assert (
        "without timestamps, which the target sets itself, but for those that the log cleaner took"
        in placed(replace(EXACT, timestamps=False, compacted=True)).words
    )
    assert placed(SAME).words == (
        "offset 60 of orders-0 is offset 60 of primary.orders-0: 100 records in 2 places between offsets 10 and 109 stand at their old offsets"
    )
    assert placed(LATE).words.endswith(
        "3 records that were read already have not been mirrored yet, and would be read again when they are; "
        "by time it is offset 50, and records may come twice"
    )
    assert placed(LOST).words.endswith("3 records that were not read yet are missing there; no offset there is safe")


@pytest.mark.parametrize("doubt", Doubt)
def test_each_doubt_has_words(doubt: Doubt) -> None:
    words = UnprovenPlace(doubt=doubt, records=7, by_time=None).why
    assert "{" not in words
    assert words[0].islower() or words.startswith("7 ")


def test_a_place_that_is_not_proven_needs_leave_and_a_lost_one_gets_none() -> None:
    check_exact([placed(EXACT), placed(SAME, 1)], allow_ahead=False)
    check_exact([placed(EXACT), placed(LATE, 1)], allow_ahead=True)
    with pytest.raises(Refused, match="orders-1 has no proven place") as caught:
        check_exact([placed(EXACT), placed(LATE, 1)], allow_ahead=False)
    assert caught.value.facts["partitions"] == ["primary.orders-1"]
    assert "allow the restore to be ahead" in caught.value.next_step
    for allow_ahead in (True, False):
        with pytest.raises(Refused, match="3 records that were not read yet are missing") as caught:
            check_exact([placed(LATE), placed(LOST, 1)], allow_ahead=allow_ahead)
        assert "load these inputs from the savepoint" in caught.value.next_step
    with pytest.raises(Refused, match="no input was looked for"):
        check_exact([], allow_ahead=True)


def log_of(numbers: Sequence[int]) -> tuple[LogRecord, ...]:
    return tuple(LogRecord(number, number, b"%d" % number, b"k%d" % number) for number in numbers)


def window(committed: int, *, begin: int = 0, end: int = 200, first: bool = True, last: bool = True) -> Window:
    return Window(committed=committed, before=log_of(range(begin, committed)), behind=log_of(range(committed, end)), first=first, last=last)


def linked(*, start: int = 0, end: int = 200, compacted: bool = False) -> MirroredLog:
    return MirroredLog(start=start, end=end, read_from=start, compacted=compacted)


def compared(old: tuple[LogRecord, ...], new: tuple[LogRecord, ...] | None = None) -> tuple[Stretch, ...]:
    return (Stretch(old, old if new is None else new),)


def test_the_same_offset_is_proven_by_enough_records() -> None:
    place = same_offset(window(100), compared(log_of(range(60, 140))), linked())
    assert place == SameOffset(offset=100, compared=80, stretches=1, first=60, last=139)
    # All that there are will do too.
    few = window(5, end=10)
    assert same_offset(few, compared(log_of(range(10))), linked(end=10)) == SameOffset(offset=5, compared=10, stretches=1, first=0, last=9)


@pytest.mark.parametrize(
    ("around", "stretches", "log", "doubt"),
    [
        (window(100), (), linked(), Doubt.SHORT),
        (window(100), compared(log_of(range(90, 110))), linked(), Doubt.SHORT),
        (window(5, end=10, first=False), compared(log_of(range(10))), linked(end=10), Doubt.SHORT),
        (window(5, end=10, last=False), compared(log_of(range(10))), linked(end=10), Doubt.SHORT),
        (window(5, end=10), compared(log_of(range(9))), linked(end=10), Doubt.SHORT),
        # Plenty elsewhere, and none of those that were read.
        (window(150, begin=100), compared(log_of(range(80))), linked(), Doubt.SHORT),
        (window(100), compared(log_of(range(60, 140)), log_of([*range(60, 139)])), linked(), Doubt.DIFFERENT),
        (window(100), compared(log_of([*range(60, 139)]), log_of(range(60, 140))), linked(), Doubt.DIFFERENT),
        (
            window(100),
            compared(log_of(range(60, 140)), tuple(one._replace(digest=b"") for one in log_of(range(60, 140)))),
            linked(),
            Doubt.DIFFERENT,
        ),
        (window(100), compared(log_of(range(60, 90))), linked(end=90), Doubt.NOT_CARRIED),
        (window(100), compared(log_of(range(110, 200))), linked(start=110), Doubt.GONE),
        (window(100, end=100), compared(()), linked(start=110), Doubt.GONE),
    ],
)
def test_the_same_offset_is_not_believed_without_proof(
    around: Window, stretches: tuple[Stretch, ...], log: MirroredLog, doubt: Doubt
) -> None:
    place = same_offset(around, stretches, log)
    assert isinstance(place, UnprovenPlace)
    assert (place.doubt, place.by_time) == (doubt, None)


def test_a_cleaner_may_have_taken_one_of_two_and_changes_none() -> None:
    old, new = log_of(range(0, 200, 2)), log_of(range(0, 200, 3))
    place = same_offset(window(100), compared(old, new), linked(compacted=True))
    assert place.doubt is Doubt.SHORT  # type: ignore[union-attr]
    more = log_of(range(200))
    assert isinstance(same_offset(window(100), compared(old, more), linked(compacted=True)), SameOffset)
    changed = (*more[:50], more[50]._replace(digest=b""), *more[51:])
    assert same_offset(window(100), compared(old, changed), linked(compacted=True)).doubt is Doubt.DIFFERENT  # type: ignore[union-attr]


@given(st.integers(1, 30), st.integers(0, 60), st.sets(st.integers(0, 59), max_size=60))
def test_an_offset_that_was_shifted_is_never_the_same(shift: int, committed: int, sampled: set[int]) -> None:
    old = log_of(sorted(sampled))
    moved = {one.offset + shift: one for one in log_of(range(60))}
    new = tuple(moved[one.offset]._replace(offset=one.offset) for one in old if one.offset in moved)
    place = same_offset(window(committed, end=60), compared(old, new), linked(end=60 + shift))
    assert isinstance(place, UnprovenPlace)


def test_samples_are_taken_where_both_have_records() -> None:
    assert sample_starts(0, 1_000, there_from=0) == (0, 500)
    assert sample_starts(100, 1_000, there_from=600) == (600, 800)
    assert sample_starts(100, 1_000, there_from=1_000) == ()
    assert sample_starts(999, 1_000, there_from=0) == (999,)
