"""The place of an offset by the records around it: never called exact when it is wrong, and found where nothing speaks against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from streams_recovery.core.offsets.by_content import find_place
from streams_recovery.core.offsets.mirrored_input import Doubt, ExactPlace, LogRecord, MirroredLog, Place, UnprovenPlace, Window
from tests.support.kafka.mirror_model import LEAST, Mirror, mirrors


def found(mirror: Mirror) -> Place:
    return find_place(mirror.window, mirror.records, mirror.log)


def runs_once(digests: Sequence[bytes]) -> bool:
    """What the finder takes for granted: no run of the least length is in the old log twice."""
    runs = Counter(tuple(digests[at : at + LEAST]) for at in range(len(digests) - LEAST + 1))
    return all(often == 1 for often in runs.values())


def check_in_order(mirror: Mirror) -> None:
    """Without a cleaner."""
    old = {copy.old: copy.record.digest for copy in mirror.copies}
    old |= {record.offset: record.digest for record in (*mirror.window.before, *mirror.window.behind)}
    assume(runs_once([old[offset] for offset in sorted(old)]))
    assume(not mirror.begun_anew)
    place = found(mirror)
    if isinstance(place, ExactPlace):
        assert place.lowest <= place.offset <= place.highest
        assert [offset for offset in range(place.lowest, place.highest + 1) if not mirror.right(offset)] == []
        assert mirror.follows(place.offset)
    elif place.by_time is not None:
        unread = {record.offset for record in mirror.window.behind}
        assert all(copy.record.offset >= place.by_time for copy in mirror.copies if copy.old in unread)


def check_cleaned(mirror: Mirror) -> None:
    """With a cleaner on either side."""
    window = (*mirror.window.before, *mirror.window.behind)
    offsets = {record.offset for record in window}
    # Taken for granted: what the cleaner took from the archive was not the same as what it left there, to the timestamp.
    assume(not {copy.record.digest for copy in mirror.copies if copy.old not in offsets} & {record.digest for record in window})
    assume(not mirror.begun_anew)
    place = found(mirror)
    if isinstance(place, ExactPlace):
        assert place.lowest <= place.offset <= place.highest
        assert [offset for offset in range(place.lowest, place.highest + 1) if not mirror.right(offset)] == []


@settings(max_examples=150)
@given(mirrors(compacted=False))
def test_a_place_that_is_called_exact_is_right(mirror: Mirror) -> None:
    check_in_order(mirror)


@settings(max_examples=150)
@given(mirrors(compacted=True))
def test_with_a_cleaner_on_either_side_an_exact_place_is_right(mirror: Mirror) -> None:
    check_cleaned(mirror)


@pytest.mark.deep
@settings(max_examples=3_000)
@given(mirrors(compacted=False) | mirrors(compacted=True))
def test_no_mirror_is_known_that_deceives(mirror: Mirror) -> None:
    (check_cleaned if mirror.log.compacted else check_in_order)(mirror)


def records(numbers: Sequence[int], *, begin: int = 0, keys: int = 1_000) -> list[LogRecord]:
    """Records of these numbers, one offset each."""
    return [LogRecord(begin + at, number, b"%d" % number, b"k%d" % (number % keys)) for at, number in enumerate(numbers)]


def around(committed: int, old: Sequence[LogRecord], *, first: bool = True, last: bool = True) -> Window:
    before, behind = (tuple(one for one in old if (one.offset < committed) is read) for read in (True, False))
    return Window(committed=committed, before=before, behind=behind, first=first, last=last)


def mirrored(there: Sequence[LogRecord], *, start: int = 0, end: int | None = None, **how: bool) -> MirroredLog:
    last = there[-1].offset + 1 if there else start
    return MirroredLog(start=start, end=last if end is None else end, read_from=start, compacted=how.pop("compacted", False), **how)


OLD = records(range(200))


@pytest.mark.parametrize("committed", [0, 1, 49, 100, 199, 200])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_faithful_mirror_has_the_place(committed: int, compacted: bool) -> None:
    there = records(range(200), begin=1_000)
    place = find_place(around(committed, OLD), there, mirrored(there, start=1_000, compacted=compacted))
    assert isinstance(place, ExactPlace)
    assert (place.offset, place.before, place.behind) == (1_000 + committed, committed, 200 - committed)
    assert (place.lowest, place.highest) == (1_000 + committed, 1_000 + committed)
    assert (place.first, place.last) == ((0, 1_000), (199, 1_199))
    assert place.proof.startswith(
        f"{committed} records in front of it and {200 - committed} behind it stand in both logs in the same order"
    )


def test_every_offset_without_a_record_between_two_means_the_same() -> None:
    there = [*records(range(100)), *records(range(100, 200), begin=110)]
    place = find_place(around(100, OLD), there, mirrored(there))
    assert isinstance(place, ExactPlace)
    assert (place.lowest, place.offset, place.highest) == (100, 110, 110)


# What is there of the old records 0 to 199, the committed offset, and what is said of it.
DOUBTS = {
    "behind": (records(range(90)), 100, Doubt.NOT_CARRIED, 10),
    "far behind": (records(range(1_000, 1_010)), 100, Doubt.NOT_THERE, 0),
    "an unread record is missing": (records([*range(150), *range(153, 200)]), 100, Doubt.LOST, 3),
    "the first unread ones are missing": (records([*range(100), *range(103, 200)]), 100, Doubt.LOST, 3),
    "the last unread ones are missing": (records([*range(150), 777]), 100, Doubt.LOST, 50),
    "unread ones came twice": (records([*range(150), *range(120, 200)]), 100, Doubt.REPEATED, 0),
    "it was begun again over the place": (records([*range(150), *range(50, 200)]), 100, Doubt.REPEATED, 0),
    "it is begun again": (records([*range(200), *range(70)]), 100, Doubt.REPEATED, 0),
    "aborted ones among those read": (records([*range(50), 777, 778, *range(50, 200)]), 100, Doubt.EXTRA, 2),
    "aborted ones among those unread": (records([*range(150), 777, *range(150, 200)]), 100, Doubt.EXTRA, 1),
    "others in stead of those unread": (records([*range(100), 777, 778]), 100, Doubt.LOST, 100),
    "newer ones, and then it was begun again": (records([*range(200), 900, *range(150, 200), 900]), 200, Doubt.REPEATED, 0),
    "one at the place": (records([*range(100), 777, *range(100, 200)]), 100, Doubt.EXTRA, 1),
    "one at the place in stead of the last": (records([*range(99), 777, *range(100, 200)]), 100, Doubt.BETWEEN, 1),
}


@pytest.mark.parametrize("name", DOUBTS)
def test_what_speaks_against_a_place_is_named(name: str) -> None:
    there, committed, doubt, count = DOUBTS[name]
    place = find_place(around(committed, OLD), there, mirrored(there))
    assert isinstance(place, UnprovenPlace)
    assert (place.doubt, place.records) == (doubt, count)
    assert place.why
    assert (place.by_time is None) == doubt.loses


def test_unread_records_that_retention_took_are_gone() -> None:
    there = records(range(103, 200), begin=103)
    place = find_place(around(100, OLD), there, mirrored(there, start=103))
    assert (place.doubt, place.records, place.by_time) == (Doubt.GONE, 3, None)
    read_ones = records(range(100, 200), begin=100)
    assert find_place(around(100, OLD), read_ones, mirrored(read_ones, start=100)).offset == 100


def test_a_short_run_is_enough_only_where_it_is_all_there_is() -> None:
    few = records(range(20), begin=500)
    assert isinstance(find_place(around(510, few), few, mirrored(few, start=500)), ExactPlace)
    for window in (around(510, few, first=False), around(510, few, last=False)):
        place = find_place(window, few, mirrored(few, start=500))
        assert isinstance(place, UnprovenPlace)
        assert (place.doubt, place.records, place.by_time) == (Doubt.SHORT, 20, 510)
        assert "only 20 records" in place.why
    assert find_place(around(510, few), few, mirrored(few, start=500, timestamps=False)).doubt is Doubt.SHORT


def test_the_same_record_on_both_sides_is_no_place() -> None:
    old = [*OLD[:150], OLD[60]._replace(offset=150), *records(range(151, 200), begin=151)]
    place = find_place(around(100, old), old, mirrored(old))
    assert (place.doubt, place.records) == (Doubt.ALIKE, 1)
    # On one side it is seen where it stands.
    assert find_place(around(160, old), old, mirrored(old)).offset == 160


def test_newer_records_behind_an_offset_without_a_record_in_front_may_be_aborted_ones() -> None:
    """The last record that was read is 199. A marker is at 200, or an aborted record is: then it is not for the application."""
    there = records([*range(200), 900, 901])
    for committed, committed_only, exact in ((200, False, True), (202, False, False), (202, True, True)):
        place = find_place(around(committed, OLD), there, mirrored(there, committed_only=committed_only))
        assert isinstance(place, ExactPlace) is exact, committed
    place = find_place(around(202, OLD), there, mirrored(there))
    assert (place.doubt, place.records) == (Doubt.BETWEEN, 2)
    # Where nothing newer was carried there is nothing to confuse it with.
    assert find_place(around(202, OLD), there[:200], mirrored(there[:200])).offset == 200


def test_nothing_on_either_side() -> None:
    nothing = around(0, [])
    place = find_place(nothing, [], mirrored([]))
    assert isinstance(place, ExactPlace)
    assert (place.offset, place.first, place.proof) == (
        0,
        None,
        "nothing was ever written there, and the old log has nothing that was read",
    )
    assert find_place(nothing, OLD, mirrored(OLD)).doubt is Doubt.NOTHING_KNOWN
    assert find_place(around(0, [], first=False), [], mirrored([])).doubt is Doubt.NOTHING_KNOWN
    waiting = find_place(around(100, OLD), [], mirrored([]))
    assert (waiting.doubt, waiting.records, waiting.by_time) == (Doubt.NOT_CARRIED, 100, 0)
    emptied = find_place(around(100, OLD), [], mirrored([], start=300))
    assert (emptied.doubt, emptied.by_time) == (Doubt.NOT_THERE, None)


def test_records_like_those_around_the_offset_fill_no_memory() -> None:
    there = (OLD[150]._replace(offset=at) for at in range(200_000))
    place = find_place(around(100, OLD), there, MirroredLog(start=0, end=200_000, read_from=0, compacted=False))
    assert (place.doubt, place.by_time) == (Doubt.TOO_MANY, None)
    assert next(there).offset < 20_000, "it is not read to its end"


KEYED = records(range(200), keys=20)


def test_a_cleaner_at_the_target_may_take_what_a_later_record_replaces() -> None:
    there = [*KEYED[:95:2], *KEYED[110:160:2], *KEYED[160:]]
    place = find_place(around(100, KEYED), there, mirrored(there, compacted=True))
    assert isinstance(place, ExactPlace)
    assert (place.lowest, place.offset, place.compacted) == (95, 110, True)
    assert "but for those that the log cleaner took" in place.proof
    # Without a cleaner these are losses, and a record that nothing replaces is one with it.
    assert find_place(around(100, KEYED), there, mirrored(there)).doubt is Doubt.LOST
    lost = [*KEYED[:190], *KEYED[191:]]
    place = find_place(around(100, KEYED), lost, mirrored(lost, compacted=True))
    assert (place.doubt, place.records) == (Doubt.LOST, 1)
    gone = find_place(around(100, KEYED), KEYED[190:], mirrored(KEYED[190:], start=190, compacted=True))
    assert isinstance(gone, UnprovenPlace)


def test_a_cleaner_of_the_old_log_leaves_records_that_only_the_target_has() -> None:
    old = [one for one in KEYED if one.offset % 3 or one.offset > 150]
    assert isinstance(find_place(around(100, old), KEYED, mirrored(KEYED, compacted=True)), ExactPlace)
    # One of them is where the place would be, and nothing says on which side.
    place = find_place(around(100, [one for one in old if one.offset not in (99, 100)]), KEYED, mirrored(KEYED, compacted=True))
    assert (place.doubt, place.records) == (Doubt.BETWEEN, 2)
    # One that nothing replaces was never in the old log.
    foreign = [*KEYED[:150], LogRecord(150, 777, b"foreign", b"nobody's"), *(one._replace(offset=one.offset + 1) for one in KEYED[150:])]
    place = find_place(around(100, KEYED), foreign, mirrored(foreign, compacted=True))
    assert (place.doubt, place.records) == (Doubt.EXTRA, 1)


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_mirror_that_is_carrying_old_records_again_is_noticed_before_it_comes_to_the_place(timestamps: bool) -> None:
    window = around(100, OLD[60:], first=False)
    for again, noticed in ((0, False), (49, False), (50, True)):
        there = records([*range(200), *range(again)])
        place = find_place(window, there, mirrored(there, timestamps=timestamps))
        assert isinstance(place, UnprovenPlace) is noticed, again
        assert not noticed or place.doubt is Doubt.REPEATED


def test_a_short_run_with_a_hole_in_it_is_not_all_there_is() -> None:
    there = records([*range(5), *range(6, 20)])
    place = find_place(around(10, OLD[:20]), there, mirrored(there))
    assert (place.doubt, place.records) == (Doubt.SHORT, 14)


# The same, with a log cleaner: the old log, what is there, the committed offset, and what is said of it.
CLEANED = {
    "unread ones came twice": (KEYED, records([*range(150), *range(120, 200)], keys=20), 100, Doubt.REPEATED, 0),
    "newer ones, and then it was begun again": (KEYED[:100], records([*range(100), 900, *range(90, 100)], keys=20), 100, Doubt.REPEATED, 0),
    "behind": (KEYED, records(range(90), keys=20), 100, Doubt.NOT_CARRIED, 10),
    "behind, and other records": (KEYED, records([*range(90), 900], keys=20), 100, Doubt.BETWEEN, 1),
    "newer ones behind a hole": (KEYED, records([*range(200), 900], keys=20), 202, Doubt.BETWEEN, 1),
    "a short run": (KEYED[:20], records(range(5, 20), keys=5), 10, Doubt.SHORT, 0),
    "one that many others are before": (
        KEYED,
        [*KEYED[:100], *records(range(1_000, 12_000), begin=100), *KEYED[100:]],
        100,
        Doubt.TOO_MANY,
        0,
    ),
}


@pytest.mark.parametrize("name", CLEANED)
def test_what_speaks_against_a_place_in_a_compacted_log_is_named(name: str) -> None:
    old, there, committed, doubt, count = CLEANED[name]
    window = around(committed, old, first=doubt is not Doubt.SHORT)
    place = find_place(window, there, mirrored(there, end=len(there), compacted=True))
    assert isinstance(place, UnprovenPlace)
    assert (place.doubt, place.records) == (doubt, count or place.records)


def test_newer_records_behind_the_committed_offset_itself_are_unread_in_a_compacted_log_too() -> None:
    there = records([*range(200), 900], keys=20)
    place = find_place(around(200, KEYED), there, mirrored(there, compacted=True))
    assert isinstance(place, ExactPlace)
    assert (place.lowest, place.offset, place.highest) == (200, 200, 200)


def test_what_is_in_front_of_the_first_record_that_is_read_there_may_be_unread() -> None:
    """The cleaner took the old records from 95 to 99, and the target may have them."""
    window = around(95, KEYED[100:])
    log = mirrored(KEYED[100:], compacted=True)
    assert isinstance(find_place(window, KEYED[100:], log), ExactPlace)
    place = find_place(window, KEYED[100:], replace(log, read_from=100))
    assert (place.doubt, place.records) == (Doubt.BETWEEN, 1)


def test_a_record_that_is_there_twice_tells_nothing_in_a_compacted_log() -> None:
    twin = KEYED[50]
    old = [*KEYED[:150], twin._replace(offset=150), *KEYED[151:]]
    # The second one is not carried yet.
    place = find_place(around(100, old), KEYED[:100], mirrored(KEYED[:100], compacted=True))
    assert isinstance(place, ExactPlace)
    assert (place.offset, place.before) == (100, 99)
    few = [*KEYED[:10], KEYED[3]._replace(offset=10)]
    assert find_place(around(5, few), few, mirrored(few, compacted=True)).doubt is Doubt.SHORT


def test_deletions_and_what_they_deleted_may_be_gone() -> None:
    deleted = [
        *KEYED[:119],
        LogRecord(119, 119, b"value", b"once"),
        LogRecord(120, 120, b"deletion", b"once", tombstone=True),
        *KEYED[121:],
    ]
    there = [one for one in deleted if one.key != b"once"]
    assert isinstance(find_place(around(100, deleted), there, mirrored(there, compacted=True)), ExactPlace)
    kept = [one._replace(tombstone=False) for one in deleted]
    place = find_place(around(100, kept), there, mirrored(there, compacted=True))
    assert (place.doubt, place.records) == (Doubt.LOST, 2)


def test_few_records_behind_newer_ones_of_a_mirror_that_began_again_are_no_proof() -> None:
    there = [LogRecord(6 + at, number, b"%d" % number, b"a") for at, number in enumerate([*range(6, 12), 3, 4, 5, 7])]
    for committed, before in ((5, []), (5, [3, 4])):
        old = [LogRecord(number, number, b"%d" % number, b"a") for number in (*before, 5)]
        assert not isinstance(find_place(around(committed, old), there, mirrored(there, start=6)), ExactPlace)


@pytest.mark.fault("F92")
@pytest.mark.parametrize("period", [1, 10, 60, 900])
@pytest.mark.parametrize("start", [0, 500, 2_030, 2_990, 3_000])
def test_records_that_repeat_are_no_proof_without_timestamps(period: int, start: int) -> None:
    """An application had read all 3,000 records; as many as repeat came later, and look like the last ones that it had read."""
    old = records([number % period for number in range(2_000, 3_000)], begin=2_000)
    there = records([number % period for number in range(start, 3_000 + max(period, 60))], begin=start)
    place = find_place(around(3_000, old, first=False), there, mirrored(there, start=start, timestamps=False))
    assert isinstance(place, UnprovenPlace)
    assert place.doubt in (Doubt.SEVERAL, Doubt.TOO_MANY, Doubt.REPEATED, Doubt.UNDATED)


@pytest.mark.fault("F92")
@pytest.mark.parametrize("committed", [60, 150, 200])
def test_records_that_do_not_repeat_are_a_proof_without_timestamps_too(committed: int) -> None:
    there = records([*range(300, 400), *range(200)])
    place = find_place(around(committed, OLD), there, mirrored(there, timestamps=False))
    assert isinstance(place, ExactPlace)
    assert place.offset == 100 + committed


@pytest.mark.fault("F92")
@pytest.mark.parametrize(
    ("period", "committed", "kept", "known_from", "read"), [(10_000, 12_000, 12_100, 11_000, 22_050), (500, 1_000, 1_200, 800, 1_500)]
)
def test_a_target_that_has_deleted_the_place_has_no_proof_without_timestamps(
    period: int, committed: int, kept: int, known_from: int, read: int
) -> None:
    """What repeats after a longer time than the known records take stands at the target once: the next time, behind records that were not read."""
    old = records([number % period for number in range(known_from, committed)], begin=known_from)
    there = [
        one._replace(timestamp=1_000_000 + one.offset) for one in records([number % period for number in range(kept, read)], begin=kept)
    ]
    place = find_place(around(committed, old, first=False), there, mirrored(there, start=kept, timestamps=False))
    assert isinstance(place, UnprovenPlace)
    assert (place.doubt, place.by_time) == (Doubt.UNDATED, None)


@pytest.mark.fault("F92")
def test_what_a_log_cleaner_may_have_taken_is_no_proof_without_timestamps() -> None:
    """A table that is sent again: the cleaner took the first copies, and the place is in front of what came in between."""
    old = records(range(100))
    there = [*records(range(500, 550), begin=100), *records(range(100), begin=150)]
    log = replace(mirrored(there, timestamps=False), compacted=True)
    place = find_place(around(100, old, first=False), there, log)
    assert isinstance(place, UnprovenPlace)
    assert place.doubt is Doubt.UNDATED
