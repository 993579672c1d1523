"""Deletion by a schedule never begins unless it was announced days before, under the rules by which it deletes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.announcement import (
    Announcement,
    Apply,
    DeletionPolicy,
    announcement,
    needs_announcement,
    outlook,
    rules_of,
)
from streams_recovery.core.repository.retention import DAY_MS, KeepRules

NOW = 1_800_000_000_000
POLICY = DeletionPolicy(apply=Apply.AFTER_DAYS, after_days=14, scheduled=True, rules="a")
RULES = KeepRules(last=1, hourly=2, daily=3, weekly=4, monthly=5, minimum=6)
ANNOUNCED = st.none() | st.builds(
    Announcement, at=st.just(0), deletes_from=st.integers(NOW - 10, NOW + 10), rules=st.sampled_from("abc"), run_id=st.just("r")
)


@given(ANNOUNCED)
def test_nothing_is_deleted_before_the_announced_day_or_by_other_rules(newest: Announcement | None) -> None:
    found = outlook(POLICY, newest, now=NOW)
    assert found.due == (newest is not None and newest.rules == "a" and newest.deletes_from <= NOW)
    assert needs_announcement(found) == (newest is None or newest.rules != "a")


@given(ANNOUNCED)
def test_who_decides_it_outright_needs_no_announcement(newest: Announcement | None) -> None:
    for apply, due in ((Apply.YES, True), (Apply.NO, False)):
        found = outlook(replace(POLICY, apply=apply), newest, now=NOW)
        assert (found.due, found.deletes_from, needs_announcement(found)) == (due, None, False)


def test_what_is_announced_holds_from_the_day_on() -> None:
    made = announcement(POLICY, now=NOW, run_id="r")
    assert made.deletes_from == NOW + 14 * DAY_MS
    assert [outlook(POLICY, made, now=now).due for now in (NOW, made.deletes_from - 1, made.deletes_from)] == [False, False, True]


@pytest.mark.parametrize("field", ["last", "hourly", "daily", "weekly", "monthly", "minimum"])
def test_every_rule_counts(field: str) -> None:
    before = rules_of(RULES, grace_days=7, safety_days=30)
    assert rules_of(replace(RULES, **{field: 99}), grace_days=7, safety_days=30) != before
    assert rules_of(RULES, grace_days=8, safety_days=30) != before
    assert rules_of(RULES, grace_days=7, safety_days=31) != before
