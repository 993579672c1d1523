"""What is said of one key: by records and by its newest one, with results that come while the comparison is prepared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.outputs.keys import Judged, KeyCounts, KeyFinding, ReadBy, RecordPart, SeenRecord, judge, what_text

values = st.sampled_from([b"a", b"b", b"c", None])
logs = st.lists(values, max_size=8)


def equal(one: bytes | None, other: bytes | None) -> bool:
    return one == other


def seen(
    way: ReadBy, here: list[bytes | None], settled: int, there: list[bytes | None], later: list[bytes | None] = ()
) -> list[SeenRecord]:
    """The records of a key as a job brings them."""
    real = [
        SeenRecord(here=True, part=RecordPart.SETTLED if at < settled else RecordPart.ARRIVED, position=at + 1, value=value)
        for at, value in enumerate(here)
    ]
    real += [SeenRecord(here=True, part=RecordPart.LATER, position=len(here) + at + 1, value=value) for at, value in enumerate(later)]
    other = [SeenRecord(here=False, part=RecordPart.SETTLED, position=at + 1, value=value) for at, value in enumerate(there)]
    return [*other, *real] if way is ReadBy.LATEST else sorted([*real, *other], key=lambda one: (one.position, one.here))


def judged(way: ReadBy, here: list[bytes | None], settled: int, there: list[bytes | None], later: list[bytes | None] = ()) -> Judged:
    # Once through, as a task sees them.
    return judge(way, iter(seen(way, here, settled, there, later)), equal)


@st.composite
def sandwiches(draw):
    """One log, read up to three ends that follow each other."""
    log = draw(logs)
    first = draw(st.integers(0, len(log)))
    second = draw(st.integers(first, len(log)))
    third = draw(st.integers(second, len(log)))
    return log[:third], first, log[:second]


@given(sandwiches(), st.sampled_from(ReadBy))
def test_two_runs_over_the_same_input_are_never_found_to_be_different(sandwich, way):
    here, settled, there = sandwich
    found = judged(way, here, settled, there).finding
    assert not found.wrong
    assert found is KeyFinding.IN_FLUX if not there else found is KeyFinding.EQUAL


@given(sandwiches(), st.data())
def test_one_record_that_is_another_one_is_found_with_its_place(sandwich, data):
    here, settled, there = sandwich
    if not there:
        return
    at = data.draw(st.integers(0, len(there) - 1))
    changed = [*there[:at], b"another", *there[at + 1 :]]
    found = judged(ReadBy.RECORDS, here, settled, changed)
    assert (found.finding, found.position) == (KeyFinding.DIFFERENT, at + 1)
    assert (found.here.value, found.there.value) == (here[at], b"another")
    assert what_text(found) == f"different in record {at + 1} of the key"


@given(logs, st.integers(0, 8), logs)
def test_records_that_are_missing_or_too_many_are_counted(here, settled, there):
    settled = min(settled, len(here))
    found = judged(ReadBy.RECORDS, here, settled, there)
    first = [one == other for one, other in zip(here, there, strict=False)]
    if not all(first):
        assert (found.finding, found.position) == (KeyFinding.DIFFERENT, first.index(False) + 1)
    elif len(there) < settled:
        assert found.finding is (KeyFinding.BEHIND if there else KeyFinding.ONLY_HERE)
        assert not there or (found.records, found.behind) == (settled - len(there), "other")
    elif len(there) > len(here):
        assert found.finding is (KeyFinding.BEHIND if here else KeyFinding.ONLY_THERE)
        assert not here or (found.records, found.behind) == (len(there) - len(here), "real")
    else:
        assert found.finding is (KeyFinding.EQUAL if there else KeyFinding.IN_FLUX)


@given(logs, st.integers(0, 8), logs)
def test_a_table_is_wrong_only_where_nothing_is_in_flux(here, settled, there):
    settled = min(settled, len(here))
    found = judged(ReadBy.LATEST, here, settled, there)
    if found.finding is KeyFinding.DIFFERENT:
        assert settled == len(here)
        assert here[-1] != there[-1]
    if found.finding is KeyFinding.EQUAL:
        assert there[-1] in here[max(0, settled - 1) :]
    if found.finding is KeyFinding.ONLY_HERE:
        assert settled > 0
        assert not there
    if found.finding is KeyFinding.ONLY_THERE:
        assert there
        assert not here


@pytest.mark.parametrize(
    ("here", "settled", "there", "expected"),
    [
        ([b"a", b"b"], 2, [b"b"], KeyFinding.EQUAL),
        ([b"a", b"b"], 2, [b"a"], KeyFinding.DIFFERENT),
        ([b"a", None], 2, [b"a"], KeyFinding.DIFFERENT),
        ([b"a", None], 2, [b"b", None], KeyFinding.EQUAL),
        ([None], 1, [], KeyFinding.ONLY_HERE),
        ([], 0, [None], KeyFinding.ONLY_THERE),
        ([b"a", b"b", b"c"], 1, [b"b"], KeyFinding.EQUAL),
        ([b"a", b"b", b"c"], 1, [b"d"], KeyFinding.IN_FLUX),
        ([b"a"], 0, [], KeyFinding.IN_FLUX),
    ],
)
def test_of_a_table_the_newest_record_counts_a_tombstone_too(here, settled, there, expected):
    assert judged(ReadBy.LATEST, here, settled, there).finding is expected


def test_a_key_whose_newest_record_is_later_than_the_interval_is_not_compared():
    assert judged(ReadBy.LATEST, [b"a"], 1, [b"b"], later=[b"c"]).finding is KeyFinding.SUPERSEDED
    assert judged(ReadBy.LATEST, [], 0, [], later=[b"c"]).finding is KeyFinding.SUPERSEDED


def test_a_record_of_a_side_is_shown_where_it_has_one():
    behind = judged(ReadBy.RECORDS, [b"a", b"b", b"c"], 3, [b"a"])
    assert (behind.here.value, behind.there.value) == (b"a", b"a")
    assert what_text(behind) == "the other output is behind by 2 records"
    assert what_text(judged(ReadBy.RECORDS, [b"a"], 1, [b"a", b"b"])) == "the real output is behind by 1 record"
    missing = judged(ReadBy.RECORDS, [b"a", b"b"], 2, [])
    assert (missing.here.value, missing.there) == (b"a", None)
    assert what_text(missing) == "only in the real output"
    table = judged(ReadBy.LATEST, [b"a", b"b"], 2, [b"c"])
    assert (table.here.value, table.there.value, what_text(table)) == (b"b", b"c", "different")


@given(st.lists(st.sampled_from(KeyFinding), max_size=20))
def test_numbers_add_up(findings):
    total = sum((KeyCounts.of(Judged(finding=one, records=3 if one is KeyFinding.BEHIND else 0)) for one in findings), KeyCounts())
    assert total.wrong == sum(one.wrong for one in findings)
    assert total.missing == 3 * total.behind == 3 * findings.count(KeyFinding.BEHIND)
    assert total.compared == sum(one in (KeyFinding.EQUAL, KeyFinding.DIFFERENT, KeyFinding.BEHIND) for one in findings)
    assert sum(getattr(total, one.name.lower()) for one in KeyFinding) == len(findings)
