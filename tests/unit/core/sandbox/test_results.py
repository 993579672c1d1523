"""What becomes of an output's keys and records when an interval's results take their place, against the plain meaning of each kind of topic.

However many want to, no more intervals than there are slots are processed at once, and never two in one slot.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.repository.journal import Phase
from streams_recovery.core.restore.interval import Interval
from streams_recovery.core.sandbox.interval_log import (
    IntervalBase,
    PublishReport,
    ReprocessOptions,
    reprocess_request,
    succeeded,
    written_interval,
)
from streams_recovery.core.sandbox.results import (
    Every,
    NewestRecord,
    PublishPolicy,
    Readers,
    SlotEntry,
    busy,
    decide_every,
    decide_newest,
    readers,
    release,
    take,
    why_not_replaced,
)

INTERVAL = Interval(start=10, end=20)
RECORDS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(1, 29), st.none() | st.sampled_from(["x", "y"])), max_size=12)
Record = tuple[bytes, int, str | None]


def newest(log: list[Record]) -> dict[bytes, NewestRecord]:
    return {
        key: NewestRecord(offset=offset, timestamp=at, digest=repr((at, value)).encode(), tombstone=value is None)
        for offset, (key, at, value) in enumerate(log)
    }


def seen(log: list[Record]) -> dict[bytes, tuple[int, str | None]]:
    """What somebody knows who has read all of a compacted topic."""
    return {key: (at, value) for key, at, value in log}


@given(output=RECORDS, results=RECORDS)
def test_of_each_key_the_newest_result_counts_and_never_one_from_before_another(output: list[Record], results: list[Record]) -> None:
    own = [record for record in results if record[1] in INTERVAL]
    decided = decide_newest(INTERVAL, newest(own), newest(output))
    after = [*output, *(own[at] for at in sorted(decided.write)), *((key, 19, None) for key in decided.vanished)]
    before, told, now = seen(output), seen(own), seen(after)
    for key in {*before, *told}:
        if key in before and before[key][0] >= INTERVAL.end:
            assert now[key] == before[key], "a later result stays"
        elif key in told:
            assert now[key] == told[key]
        elif before[key][0] in INTERVAL:
            assert now[key][1] is None, "nothing of the interval that did not come again stays"
        else:
            assert now[key] == before[key], "what is older stays"
    assert decided.same + decided.superseded + len(decided.write) == len(told)
    again = decide_newest(INTERVAL, newest(own), newest(after))
    assert (again.write, again.vanished) == (frozenset(), ()), "a second time changes nothing"


@given(results=st.lists(st.binary(max_size=1), max_size=6), there=st.lists(st.binary(max_size=1), max_size=6))
def test_where_every_record_counts_results_are_added_once_or_not_at_all(results: list[bytes], there: list[bytes]) -> None:
    decided = decide_every(Counter(results), Counter(there))
    after = there + (results if decided is Every.APPEND else [])
    if decided is not Every.DIFFERENT:
        assert Counter(after) == Counter(results)
        assert decide_every(Counter(results), Counter(after)) is Every.SAME
    else:
        assert there
        assert Counter(there) != Counter(results)


def test_who_reads_a_topic_is_told_by_its_policy() -> None:
    assert readers({"cleanup.policy": "compact"}) is readers({"cleanup.policy": "compact,delete"}) is Readers.NEWEST
    assert readers({"cleanup.policy": "delete"}) is readers({}) is Readers.EVERY


@pytest.mark.parametrize(
    ("settings", "partitions", "said"),
    [
        ({}, 4, None),
        ({}, 3, "3 partitions, and the results have 4"),
        ({"message.timestamp.type": "LogAppendTime"}, 4, "the time of its arrival"),
        ({"message.timestamp.before.max.ms": "99"}, 4, "more than 99 ms old"),
        ({"message.timestamp.before.max.ms": "100"}, 4, None),
        ({"retention.ms": "99"}, 4, "deleted at once"),
        ({"retention.ms": "99", "cleanup.policy": "compact,delete"}, 4, "deleted at once"),
        ({"retention.ms": "99", "cleanup.policy": "compact"}, 4, None),
        ({"retention.ms": "100"}, 4, None),
        ({"retention.ms": "-1"}, 4, None),
    ],
)
def test_an_output_that_cannot_take_old_records_is_refused(settings: dict[str, str], partitions: int, said: str | None) -> None:
    why = why_not_replaced("totals", settings, partitions, 4, 900, 1_000)
    assert (why is None) if said is None else said in str(why)


def test_what_is_asked_is_taken_at_its_word() -> None:
    asked = ReprocessOptions(lateness="PT1H", overlap="PT10M", beyond="PT0S", base="savepoint", reason="why")
    request = reprocess_request(asked, INTERVAL, "orders", ("prices",))
    assert (request.slice.lateness, request.slice.overlap, request.slice.beyond) == (3_600_000, 600_000, 0)
    assert (request.slice.tables, request.base, request.publish) == (("prices",), IntervalBase.SAVEPOINT, PublishPolicy.SIDE_BY_SIDE)
    filled = {"lateness": "PT0S", "overlap": "PT0S", "beyond": "PT0S", "base": "none"}
    for confirm in ("", "order", "reprocess-orders"):
        with pytest.raises(Refused, match="only when its id is typed"):
            reprocess_request(ReprocessOptions(**filled, publish=PublishPolicy.REPLACE, confirm=confirm), INTERVAL, "orders", ())
    assert reprocess_request(
        ReprocessOptions(**filled, publish=PublishPolicy.REPLACE, confirm="orders", tombstones=True), INTERVAL, "orders", ()
    ).tombstones
    with pytest.raises(ConfigInvalid, match="tombstones belong to publish replace"):
        reprocess_request(ReprocessOptions(**filled, tombstones=True), INTERVAL, "orders", ())
    with pytest.raises(ConfigInvalid, match="is not a duration"):
        reprocess_request(ReprocessOptions(**{**filled, "overlap": "1h"}), INTERVAL, "orders", ())


def test_an_interval_is_written_with_its_time_zones() -> None:
    found = written_interval("2026-11-21T13:00:00+01:00", "2026-11-21T13:00:00 UTC")
    assert (found.name, found.end - found.start) == ("20261121T120000Z", 3_600_000)
    with pytest.raises(ConfigInvalid, match="has no time zone"):
        written_interval("2026-11-21T12:00:00", "2026-11-21T13:00:00Z")
    with pytest.raises(ConfigInvalid, match="is no interval"):
        written_interval("2026-11-21T13:00:00Z", "2026-11-21T12:00:00Z")


@pytest.mark.parametrize(
    ("records", "reached", "published", "left", "expected"),
    [
        (0, None, False, (), True),
        (0, None, False, ("a topic",), False),
        (None, None, False, (), False),
        (5, None, False, (), False),
        (5, Phase.CLOSED, True, (), True),
        (5, Phase.CLOSED, False, (), False),
        (5, Phase.RECOVERED, True, (), False),
        (5, Phase.CLOSED, True, ("a topic",), False),
    ],
)
def test_an_interval_has_succeeded_when_it_was_handed_over_or_had_nothing(
    records: int | None, reached: Phase | None, published: bool, left: tuple[str, ...], expected: bool
) -> None:
    report = PublishReport(how=PublishPolicy.SIDE_BY_SIDE, outputs=()) if published else None
    assert succeeded(records, reached, report, left) is expected
    assert succeeded(records, reached, report, left, late=6) is (expected and records != 0)


NAMES = st.sampled_from("abcde")
STEPS = st.lists(st.tuples(st.booleans(), NAMES, st.integers(1, 3)), max_size=40)


@given(steps=STEPS, slots=st.integers(1, 3))
def test_slots_are_never_shared_and_never_more_than_there_are(steps: list[tuple[bool, str, int]], slots: int) -> None:
    last: SlotEntry | None = None
    working: dict[str, tuple[int, str]] = {}
    for taking, name, number in steps:
        run = f"run-{number}"
        if taking:
            last = take(last, name, run=run, at=0, slots=slots)
            assert (last.slot is None) == (name not in working and len(working) == slots)
            if name in working:
                assert last.slot == working[name][0], "the same interval again keeps its slot"
            if last.slot is not None:
                working[name] = (last.slot, run)
        else:
            given_back = release(last, name, run=run, at=0)
            assert (given_back is not None) == (name in working and working[name][1] == run), "only by the run that took it"
            if given_back is not None:
                last = given_back
                del working[name]
        found = {} if last is None else {interval: (taken.slot, taken.run) for interval, taken in last.taken.items()}
        assert found == working
        assert busy(last) == tuple(sorted(working))
        used = [slot for slot, _ in working.values()]
        assert len(set(used)) == len(used) <= slots
        assert all(0 <= slot < slots for slot in used)


def test_only_the_run_that_has_a_slot_gives_it_back() -> None:
    last = take(None, "a", run="one", at=0, slots=1)
    assert release(last, "a", run="two", at=0) is None
    assert release(take(last, "a", run="two", at=0, slots=1), "a", run="one", at=0) is None, "it was claimed again"
    free = release(last, "a", run="one", at=0)
    assert free is not None
    assert (free.taken, take(free, "b", run="two", at=0, slots=1).slot) == ({}, 0)


def test_with_fewer_slots_than_before_an_interval_moves_to_one_that_there_is() -> None:
    last = take(take(None, "a", run="one", at=0, slots=2), "b", run="two", at=0, slots=2)
    refused = take(last, "b", run="three", at=0, slots=1)
    assert (refused.slot, refused.taken) == (None, last.taken)
    free = release(last, "a", run="one", at=0)
    assert take(free, "b", run="three", at=0, slots=1).slot == 0
