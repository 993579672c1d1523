"""Scheduled runs of an expiry on a real directory: the first one announces, and those of the days after it remove nothing."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.repository.retention import DAY_MS, Announcement, Apply
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from tests.support.repository.golden import SECOND_AT, OpenGolden, age, checked, root


def announced(recovery: RecoveryContext) -> int:
    return len(list((root(recovery) / "announcements").glob("*.json")))


def test_the_first_run_announces_and_a_run_after_that_many_days_deletes(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    first = maintenance.announce(recovery, "first")
    age(recovery, days=0, now=SECOND_AT)
    assert (first.due, first.deletes_from) == (False, SECOND_AT + 14 * DAY_MS)
    for days, due in ((1, False), (13.9, False), (14, True), (200, True)):
        later = golden("good", now=SECOND_AT + int(days * DAY_MS))
        assert maintenance.announce(later, "later").due is due
        assert announced(later) == 1, "said once"
        assert maintenance.deletion_outlook(later).due is due


def test_a_look_announces_nothing(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    assert maintenance.plan_expiry(recovery).outlook == maintenance.deletion_outlook(recovery)
    assert announced(recovery) == 0


def test_other_rules_are_announced_again(golden: OpenGolden) -> None:
    maintenance.announce(golden("good", now=SECOND_AT), "first")
    recovery = golden("good", now=SECOND_AT + 20 * DAY_MS)
    stricter = recovery.config.retention.model_copy(update={"keep_daily": recovery.config.retention.keep_daily - 1})
    object.__setattr__(recovery.config, "retention", stricter)
    found = maintenance.announce(recovery, "second")
    assert (found.due, found.deletes_from, announced(recovery)) == (False, SECOND_AT + 34 * DAY_MS, 2)


def test_what_was_withdrawn_is_announced_again(golden: OpenGolden) -> None:
    maintenance.announce(golden("good", now=SECOND_AT), "first")
    recovery = golden("good", now=SECOND_AT + 20 * DAY_MS)
    for _ in range(2):
        maintenance.withdraw(recovery, "off")
    assert announced(recovery) == 2
    assert maintenance.announce(recovery, "again").deletes_from == SECOND_AT + 34 * DAY_MS


def test_nothing_is_withdrawn_where_nothing_was_announced(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.withdraw(recovery, "off")
    assert announced(recovery) == 0


def test_the_plan_says_from_when_on_it_is_carried_out(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    assert "only show this" in maintenance.expiry_text(maintenance.plan_expiry(recovery))
    before = maintenance.plan_expiry(recovery).hash
    maintenance.announce(recovery, "first")
    age(recovery, days=0, now=SECOND_AT)
    plan = maintenance.plan_expiry(recovery)
    assert "**From 2026-12-05 01:00:00 UTC on, runs of the schedule carry this out.**" in maintenance.expiry_text(plan)
    assert plan.hash == before, "what is approved is what goes, not when"
    assert plan.outlook.apply is Apply.AFTER_DAYS


def test_a_check_finds_an_announcement_that_is_none(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.announce(recovery, "first")
    assert checked(recovery, "structure").good
    next((root(recovery) / "announcements").glob("*.json")).write_text("{}")
    assert [found.key.split("/")[1] for found in checked(recovery, "structure").findings] == ["announcements"]


def test_a_forged_announcement_deletes_nothing_before_its_own_days_of_notice(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    rules = maintenance.announce(recovery, "first")
    made = AppendLog(recovery.repository, recovery.layout.announcements, Announcement)
    newest = made.last()
    assert newest is not None
    made.append(replace(newest, at=0, deletes_from=0, run_id="?"))
    age(recovery, days=13, now=SECOND_AT)
    assert not maintenance.scheduled(recovery, "run", Apply.AFTER_DAYS).due
    age(recovery, days=14, now=SECOND_AT)
    assert maintenance.scheduled(recovery, "run", Apply.AFTER_DAYS).due
    assert not rules.due
