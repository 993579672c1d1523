"""Deletion by a schedule never begins unless it was announced days before, under the rules by which it deletes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.announcement import (
    Announcement,
    Apply,
    DeletionOutlook,
    DeletionPolicy,
    announcement,
    needs_announcement,
    outlook,
    outlook_text,
    rules_of,
)
from streams_recovery.core.repository.retention import DAY_MS, KeepRules

NOW = 1_800_000_000_000
EARLY = NOW - 20 * DAY_MS
POLICY = DeletionPolicy(apply=Apply.AFTER_DAYS, after_days=14, scheduled=True, rules="a")
RULES = KeepRules(last=1, hourly=2, daily=3, weekly=4, monthly=5, minimum=6)
ANNOUNCED = st.none() | st.builds(
    Announcement, at=st.just(0), deletes_from=st.integers(EARLY + 14 * DAY_MS, NOW + 10), rules=st.sampled_from("abc"), run_id=st.just("r")
)


@given(ANNOUNCED)
def test_nothing_is_deleted_before_the_announced_day_or_by_other_rules(newest: Announcement | None) -> None:
    found = outlook(POLICY, newest, stored_at=EARLY, now=NOW)
    assert found.due == (newest is not None and newest.rules == "a" and newest.deletes_from <= NOW)
    assert needs_announcement(found) == (newest is None or newest.rules != "a")


@given(ANNOUNCED)
def test_who_decides_it_outright_needs_no_announcement(newest: Announcement | None) -> None:
    for apply, due in ((Apply.YES, True), (Apply.NO, False)):
        found = outlook(replace(POLICY, apply=apply), newest, stored_at=EARLY, now=NOW)
        assert (found.due, found.deletes_from, needs_announcement(found)) == (due, None, False)


def test_what_is_announced_holds_from_the_day_on() -> None:
    made = announcement(POLICY, now=NOW, run_id="r")
    assert made.deletes_from == NOW + 14 * DAY_MS
    assert [outlook(POLICY, made, stored_at=NOW, now=now).due for now in (NOW, made.deletes_from - 1, made.deletes_from)] == [
        False,
        False,
        True,
    ]


@pytest.mark.fault("F63")
@given(deletes_from=st.integers(-(1 << 63), (1 << 63) - 1), at=st.integers(-(1 << 63), (1 << 63) - 1))
def test_no_announcement_shortens_the_notice_and_none_puts_it_off_for_more_than_a_year(deletes_from: int, at: int) -> None:
    forged = Announcement(at=at, deletes_from=deletes_from, rules=POLICY.rules, run_id="?")
    found = outlook(POLICY, forged, stored_at=NOW, now=NOW + 14 * DAY_MS - 1)
    assert not found.due
    assert found.deletes_from is not None
    assert NOW + 14 * DAY_MS <= found.deletes_from <= NOW + 366 * DAY_MS
    longer = replace(POLICY, after_days=30)
    assert not outlook(longer, forged, stored_at=NOW, now=NOW + 30 * DAY_MS - 1).due, "what is configured now counts"


@pytest.mark.parametrize("field", ["last", "hourly", "daily", "weekly", "monthly", "minimum"])
def test_every_rule_counts(field: str) -> None:
    before = rules_of(RULES, grace_days=7, safety_days=30, work_days=30)
    assert rules_of(replace(RULES, **{field: 99}), grace_days=7, safety_days=30, work_days=30) != before
    assert rules_of(RULES, grace_days=8, safety_days=30, work_days=30) != before
    assert rules_of(RULES, grace_days=7, safety_days=31, work_days=30) != before
    assert rules_of(RULES, grace_days=7, safety_days=30, work_days=31) != before


NOW = 1_795_219_200_000
ANNOUNCED = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=NOW + 60_000, due=False)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "**From 2026-11-21 00:01:00 UTC on, runs of the schedule carry this out.**"),
        ({"due": True}, "carry this out since 2026-11-21 00:01:00 UTC"),
        ({"deletes_from": None}, "The next one announces that they carry it out from 14 days later on"),
        ({"apply": Apply.YES}, "carry this out (`retention.apply: true`)"),
        ({"apply": Apply.NO}, "only show this (`retention.apply: false`)"),
        ({"scheduled": False}, "No run is scheduled"),
    ],
)
def test_a_plan_says_what_becomes_of_it(changed: dict[str, object], said: str) -> None:
    assert said in outlook_text(replace(ANNOUNCED, **changed))  # type: ignore[arg-type]
