"""A held value says that it is one, carries what the owner had set, and never more than a broker takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.topic_holds.held_value import (
    FORMS,
    MAX_COMPACTION_LAG,
    MIN_COMPACTION_LAG,
    RETENTION_BYTES,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    UNLIMITED,
    HeldValue,
    held_value,
    read_held,
)

KEYS = st.sampled_from(sorted(FORMS))
DAY = 86_400_000


@given(key=KEYS, owner=st.none() | st.integers(1, 10**12 - 4).map(str), note=st.integers(0, 99))
def test_what_the_owner_had_set_is_read_back(key: str, owner: str | None, note: int) -> None:
    note = 0 if key == TIMESTAMP_AFTER else note
    value = held_value(key, owner, note)
    assert read_held(key, value) == HeldValue(owner=owner, note=note)
    assert len(value) == 19
    assert 6 * 10**18 <= int(value) < UNLIMITED, "a broker takes it for no limit, and as a number of 64 bits"


@given(key=KEYS, value=st.none() | st.integers(-1, 6 * 10**18 - 1).map(str) | st.just(str(UNLIMITED)) | st.text(max_size=18))
def test_what_an_owner_sets_is_no_hold_s(key: str, value: str | None) -> None:
    assert read_held(key, value) is None


@given(key=KEYS, value=st.integers(6 * 10**18, UNLIMITED).map(str) | st.integers(9_223_371 * 10**12, 9_223_372 * 10**12).map(str))
def test_whatever_a_held_value_says_only_what_a_broker_takes_comes_back(key: str, value: str) -> None:
    found = read_held(key, value)
    if found is not None and found.owner is not None:
        assert FORMS[key].least <= int(found.owner) <= UNLIMITED


@given(now=st.integers(1_700_000_000_000, 4_000_000_000_000), owner=st.none() | st.integers(0, UNLIMITED).map(str))
def test_any_timestamp_is_taken(now: int, owner: str | None) -> None:
    assert UNLIMITED - now <= int(held_value(TIMESTAMP_AFTER, owner)) <= UNLIMITED
    assert now <= int(held_value(TIMESTAMP_BEFORE, owner))


@pytest.mark.parametrize("owner", [UNLIMITED, 10**16, 5 * 10**18])
def test_what_is_too_large_to_be_carried_comes_back_as_no_limit(owner: int) -> None:
    for key in FORMS:
        assert read_held(key, held_value(key, str(owner))) == HeldValue(owner=str(UNLIMITED), note=0)


def test_a_person_can_read_it() -> None:
    assert held_value(MIN_COMPACTION_LAG, str(7 * DAY), 0b101) == "6000050000604800002"
    assert held_value(MAX_COMPACTION_LAG, None, 20_778) == "7207780000000000000"
    assert held_value(RETENTION_BYTES, "-1") == "8000000000000000001"
    assert held_value(TIMESTAMP_AFTER, "3600000") == "9223371000003600002"


@given(
    notes=st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 99_999)),
    owners=st.tuples(*[st.none() | st.integers(0, UNLIMITED).map(str)] * 2),
)
def test_the_smaller_lag_is_never_above_the_larger_one(notes: tuple[int, int], owners: tuple[str | None, str | None]) -> None:
    least, most = (
        held_value(key, owner, note) for key, owner, note in zip((MIN_COMPACTION_LAG, MAX_COMPACTION_LAG), owners, notes, strict=True)
    )
    assert int(least) <= int(most)


def test_a_setting_that_is_no_number_is_damage() -> None:
    with pytest.raises(Damaged, match=r"retention\.bytes of a topic is 'all'"):
        held_value(RETENTION_BYTES, "all")
