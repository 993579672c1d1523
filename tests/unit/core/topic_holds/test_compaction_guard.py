"""However savepoints overlap on a topic: the cleaner stays away until the last has gone, and then all is as its owner had set it.

A held value says that it is one, carries what the owner had set, and never more than a broker takes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicDescription
from streams_recovery.core.topic_holds.compaction_guard import (
    COPY_MARKS,
    FORGOTTEN_DAYS,
    FORMS,
    MAX_COMPACTION_LAG,
    MIN_COMPACTION_LAG,
    RESTORE_MARK,
    RETENTION_BYTES,
    TIMESTAMP_AFTER,
    TIMESTAMP_BEFORE,
    UNLIMITED,
    HeldValue,
    free_marks,
    guard_on,
    held_value,
    joined,
    left,
    marked,
    needs_guard,
    owner_config,
    read_held,
    unguarded,
)
from streams_recovery.core.topic_holds.log import restore_hold, restore_released
from tests.support.examples.topic_configs import CONFIGS, TODAY, altered


def described(config: dict[str, str], name: str = "t") -> TopicDescription:
    return TopicDescription(name=name, topic_id=f"{name}-id", partitions=1, replication_factor=1, config=config, leader_epochs=(0,))


@given(owner=CONFIGS, moves=st.lists(st.integers(0, 9), max_size=40), restored=st.booleans())
def test_whoever_comes_and_goes_in_whatever_order(owner: dict[str, str], moves: list[int], restored: bool) -> None:
    config = restore_hold(owner) if restored else dict(owner)
    here: dict[int, int] = {}
    for run in moves:
        if run in here:
            config = altered(config, left(config, here.pop(run)))
        else:
            here[run] = free_marks([config], TODAY)[0]
            config = altered(config, joined(config, here[run], TODAY))
            assert joined(config, here[run], TODAY) == {}, "nothing is altered twice"
        assert owner_config(config) == owner, "and everybody sees what the owner had set"
        guard = guard_on(config)
        assert (guard.marks if guard else set()) == {*here.values(), *([RESTORE_MARK] if restored else [])}
    for mark in here.values():
        config = altered(config, left(config, mark))
    assert config == (restore_hold(owner) if restored else owner)


@given(owner=CONFIGS, order=st.permutations(["copy", "restore"]))
def test_a_restore_s_hold_and_a_copy_s_guard_end_in_any_order(owner: dict[str, str], order: list[str]) -> None:
    config = restore_hold(owner)
    config = altered(config, joined(config, 3, TODAY))
    for which in order:
        config = altered(config, restore_released(config) if which == "restore" else left(config, 3))
        assert marked(config, 3) is (which == "restore" == order[0])
        assert restore_released(config) == {} or which == "copy"
    assert config == owner


def test_a_guard_that_a_dead_run_has_forgotten_ends_with_the_next_one() -> None:
    owner = {"cleanup.policy": "compact"}
    config = altered(owner, joined(owner, 1, TODAY))
    almost = altered(config, joined(config, 2, TODAY + FORGOTTEN_DAYS - 1))
    assert marked(altered(almost, left(almost, 2)), 1)
    for mark in (1, 2):
        later = altered(config, joined(config, mark, TODAY + FORGOTTEN_DAYS))
        assert joined(later, mark, TODAY + FORGOTTEN_DAYS) == {}
        assert altered(later, left(later, mark)) == owner


def test_a_restore_s_mark_is_never_forgotten_and_a_copy_beside_it_counts_from_its_own_day() -> None:
    config = restore_hold({})
    for day in (TODAY, TODAY + 40):
        config = altered(config, joined(config, 1, day))
        both = altered(config, joined(config, 2, day + 1))
        assert (marked(both, 0), marked(both, 1), marked(both, 2)) == (True, True, True)
        config = altered(config, left(config, 1))
    assert config == restore_hold({})


def test_a_setting_that_its_owner_has_changed_meanwhile_stays() -> None:
    held = altered({"cleanup.policy": "compact"}, joined({"cleanup.policy": "compact"}, 1, TODAY))
    now = {**held, MIN_COMPACTION_LAG: "60000"}
    assert not marked(now, 1)
    assert altered(now, left(now, 1)) == {"cleanup.policy": "compact", MIN_COMPACTION_LAG: "60000"}


@pytest.mark.parametrize("mark", COPY_MARKS)
def test_what_has_no_mark_of_ours_is_named(mark: int) -> None:
    free = {"cleanup.policy": "compact"}
    other = altered(free, joined(free, mark % 15 + 1, TODAY))
    mine = altered(other, joined(other, mark, TODAY))
    topics = [
        described(config, name)
        for name, config in (("free", free), ("other", other), ("mine", mine), ("deleted", {"cleanup.policy": "delete"}))
    ]
    assert [topic.name for topic in unguarded(topics, mark, "delete")] == ["free", "other"]


def test_only_fifteen_can_guard_a_topic_at_once() -> None:
    config = {"cleanup.policy": "compact"}
    for mark in COPY_MARKS:
        assert mark in free_marks([config], TODAY)
        config = altered(config, joined(config, mark, TODAY))
    assert free_marks([config, {}], TODAY) == []
    assert free_marks([config], TODAY + FORGOTTEN_DAYS) == [*COPY_MARKS]


@pytest.mark.parametrize(
    ("config", "default", "expected"),
    [
        ({}, "delete", False),
        ({}, "compact", True),
        ({"cleanup.policy": "compact,delete"}, "delete", True),
        ({"cleanup.policy": "delete"}, "compact", False),
        ({"cleanup.policy": "compact", MIN_COMPACTION_LAG: "1000"}, "delete", True),
        ({"cleanup.policy": "compact", MIN_COMPACTION_LAG: str(UNLIMITED)}, "delete", False),
        ({"cleanup.policy": "compact", **joined({}, 1, TODAY)}, "delete", True),
        ({"cleanup.policy": "compact", **joined({MAX_COMPACTION_LAG: "5"}, 1, TODAY)}, "delete", True),
    ],
)
def test_only_what_the_cleaner_may_compact_is_guarded(config: dict[str, str], default: str, expected: bool) -> None:
    assert needs_guard(config, default) is expected


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
