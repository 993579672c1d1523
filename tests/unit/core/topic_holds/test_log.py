"""Holds end as they began: whatever was set before is set again, and what was not set is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Damaged
from streams_recovery.core.topic_holds.compaction_guard import RESTORE_MARK, joined, marked, owner_config
from streams_recovery.core.topic_holds.log import (
    HoldEntry,
    HoldPurpose,
    TopicHold,
    change_of_release,
    expires_on_release,
    outstanding,
    restore_hold,
    restore_joined,
    restore_released,
    too_large,
    too_old_from,
)
from tests.support.examples.savepoints import DAY
from tests.support.examples.topic_configs import CONFIGS, TODAY, altered


@given(final=CONFIGS)
def test_a_restore_s_hold_that_is_released_leaves_no_trace(final: dict[str, str]) -> None:
    held = restore_hold(final)
    assert held["message.timestamp.type"] == "CreateTime", "else the broker would replace what is restored"
    assert min(int(held[key]) for key in restore_hold({}) if key.endswith(("ms", "bytes"))) >= 6 * 10**18
    assert owner_config(held) == final
    assert altered(held, restore_released(held)) == final


@given(config=CONFIGS, copying=st.booleans())
def test_a_restore_s_hold_on_a_topic_that_is_there_joins_a_copy_s_and_leaves_no_trace(config: dict[str, str], *, copying: bool) -> None:
    before = altered(config, joined(config, 3, TODAY)) if copying else config
    held = altered(before, restore_joined(before, TODAY))
    assert restore_joined(held, TODAY) == {}, "twice is once"
    assert held["message.timestamp.type"] == "CreateTime"
    assert int(held["retention.ms"]) >= 6 * 10**18
    assert marked(held, RESTORE_MARK)
    assert marked(held, 3) == copying
    assert owner_config(held) == config
    assert altered(held, restore_released(held)) == before


def test_settings_that_no_broker_takes_are_damage() -> None:
    for config in ({"message.timestamp.type": "Never"}, {"retention.ms": "x"}):
        with pytest.raises(Damaged):
            restore_hold(config)


@given(mark=st.integers(), config=CONFIGS)
def test_what_is_recorded_of_a_copy_ends_nothing_that_a_restore_holds(mark: int, config: dict[str, str]) -> None:
    held = restore_hold(config)
    assert change_of_release(HoldPurpose.COPY, mark)(held) == {}
    assert change_of_release(HoldPurpose.COPY, mark)(config) == {}, "nor does it change what nobody holds"
    guarded = altered(config, joined(config, 5, TODAY))
    after = altered(guarded, change_of_release(HoldPurpose.COPY, mark)(guarded))
    assert after == (config if mark == 5 else guarded)
    assert marked(altered(guarded, change_of_release(HoldPurpose.RESTORE, mark)(guarded)), 5)


def entry(kind: str, run: str, *topics: str, purpose: HoldPurpose = HoldPurpose.COPY) -> HoldEntry:
    held = tuple(TopicHold(topic=name, topic_id=f"{name}-id") for name in topics)
    return HoldEntry(kind=kind, purpose=purpose, run=run, at=5, mark=1, topics=held, clear=False)  # type: ignore[arg-type]


def test_a_release_in_parts_ends_what_it_names_of_its_own_run() -> None:
    entries = [
        entry("applied", "r1", "a", "b"),
        entry("applied", "r2", "a", purpose=HoldPurpose.RESTORE),
        entry("released", "r1", "a"),
    ]
    assert [(held.run, held.hold.topic, held.purpose, held.mark) for held in outstanding(entries)] == [
        ("r1", "b", HoldPurpose.COPY, 1),
        ("r2", "a", HoldPurpose.RESTORE, 1),
    ]
    assert outstanding([*entries, entry("released", "r1", "b"), entry("released", "r2", "a")]) == ()


def test_a_topic_that_was_made_again_is_another_one() -> None:
    again = HoldEntry(
        kind="applied", purpose=HoldPurpose.COPY, run="r1", at=6, mark=1, topics=(TopicHold(topic="a", topic_id="other"),), clear=False
    )
    assert [held.hold.topic_id for held in outstanding([entry("applied", "r1", "a"), again, entry("released", "r1", "a")])] == ["other"]


VERSIONED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "1000"}


@pytest.mark.fault("F34")
@pytest.mark.parametrize(
    ("newest", "final", "expected"),
    [
        (0, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}, True),
        (9 * DAY + 1, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}, False),
        (0, {"cleanup.policy": "compact", "retention.ms": "1000"}, False),
        (0, {"cleanup.policy": "compact,delete", "retention.ms": "-1"}, False),
        (0, {"cleanup.policy": "compact,delete"}, False),
        (None, {"cleanup.policy": "delete", "retention.ms": "1"}, False),
        (0, {"cleanup.policy": "delete", "retention.ms": str(10 * DAY)}, False),
        (0, VERSIONED, True),
        (9 * DAY, VERSIONED, False),
        (9 * DAY - 1, VERSIONED, True),
        (None, VERSIONED, False),
        (0, {**VERSIONED, "min.compaction.lag.ms": "0"}, False),
        (0, {**VERSIONED, "min.compaction.lag.ms": str(2**63 - 1)}, False),
        (0, {**VERSIONED, "cleanup.policy": "delete"}, False),
    ],
)
def test_settings_go_back_only_when_nothing_live_expires(newest: int | None, final: dict[str, str], expected: bool) -> None:
    assert expires_on_release(newest, final, 10 * DAY, DAY) is expected


@pytest.mark.fault("F85")
@pytest.mark.parametrize(
    ("final", "since", "expected"),
    [
        ({"retention.ms": str(7 * DAY)}, 100 * DAY, 86 * DAY),
        ({"retention.ms": str(7 * DAY), "segment.ms": str(DAY)}, 100 * DAY, 92 * DAY),
        ({"retention.ms": str(7 * DAY), "segment.ms": str(DAY)}, 98 * DAY, 90 * DAY),
        ({"retention.ms": str(7 * DAY), "segment.ms": str(DAY)}, 200 * DAY, 92 * DAY),
        ({"retention.ms": "-1"}, 0, None),
        ({}, 0, None),
        ({"cleanup.policy": "compact", "retention.ms": "1"}, 0, None),
        ({"retention.ms": str(2**62)}, 0, 0),
    ],
)
def test_where_each_record_counts_the_oldest_tells_whether_this_retention_can_have_kept_it(
    final: dict[str, str], since: int, expected: int | None
) -> None:
    assert too_old_from(final, 100 * DAY, since) == expected


LIMITED = {"retention.bytes": "100", "segment.bytes": "10"}


@pytest.mark.fault("F106")
@pytest.mark.parametrize(
    ("final", "restored", "later", "expected"),
    [
        (LIMITED, 111, 0, True),
        (LIMITED, 110, 0, False),
        (LIMITED, 111, 99, True),
        (LIMITED, 111, 100, False),
        ({"retention.bytes": "100"}, 111, 0, False),
        ({"retention.bytes": "100"}, 101 + (1 << 30), 0, True),
        ({"segment.bytes": "10"}, 2**60, 0, False),
        ({**LIMITED, "retention.bytes": "-1"}, 2**60, 0, False),
        ({**LIMITED, "cleanup.policy": "compact"}, 111, 0, False),
        ({**LIMITED, "cleanup.policy": "compact,delete"}, 111, 0, True),
    ],
)
def test_a_size_that_this_limit_cannot_have_left_keeps_the_hold_until_newer_records_fill_it(
    final: dict[str, str], restored: int, later: int, *, expected: bool
) -> None:
    assert too_large(final, restored, later) is expected
