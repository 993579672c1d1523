"""Which savepoints stay: the rules one by one, and what holds whatever they say.

Deletion by a schedule never begins unless it was announced days before, under the rules by which it deletes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.repository.retention import (
    DAY_MS,
    Announcement,
    Apply,
    DeletionOutlook,
    DeletionPolicy,
    HeldSavepoint,
    KeepRules,
    ObjectLock,
    Pin,
    Pins,
    StoredFile,
    announcement,
    decide,
    needs_announcement,
    outlook,
    outlook_text,
    past_grace,
    pinned,
    removable,
    rules_of,
    unneeded_keys,
)

HOUR = 3_600_000
NONE = KeepRules(last=0, hourly=0, daily=0, weekly=0, monthly=0, minimum=1)
RULES = st.builds(
    KeepRules,
    last=st.integers(0, 5),
    hourly=st.integers(0, 5),
    daily=st.integers(0, 5),
    weekly=st.integers(0, 3),
    monthly=st.integers(0, 3),
    minimum=st.integers(1, 4),
)
T0 = 1_795_219_200_000  # 2026-11-21 00:00 UTC, a Saturday


def held(hours: float, *, exact: bool = True, whole: bool = True) -> HeldSavepoint:
    return HeldSavepoint(
        savepoint_id=f"{hours:+}{'' if exact else '-ahead'}",
        captured_at=T0 + int(hours * HOUR),
        consistency=Consistency.EXACT if exact else Consistency.AHEAD,
        whole=whole,
        in_use=False,
    )


@given(savepoints=st.lists(st.integers(-2000, 0), unique=True, max_size=30), rules=RULES, data=st.data())
def test_one_without_state_never_takes_the_place_of_one_that_has_it(savepoints: list[int], rules: KeepRules, data: st.DataObject) -> None:
    drawn = [replace(held(hours), profile=data.draw(st.sampled_from(Profile))) for hours in savepoints]
    apart = [[one for one in drawn if one.profile is profile] for profile in Profile]
    assert kept(drawn, rules) == kept(apart[0], rules) | kept(apart[1], rules)
    moments = [decision.captured_at for decision in decide(drawn, rules, pins())]
    assert moments == sorted(moments, reverse=True)


def pins(*marks: Pin, notice_ms: int = 0) -> Pins:
    return Pins(marks=marks, now=T0, notice_ms=notice_ms)


def kept(savepoints: list[HeldSavepoint], rules: KeepRules, *marks: Pin) -> set[str]:
    return {decision.savepoint_id for decision in decide(savepoints, rules, pins(*marks)) if decision.why_kept}


def mark(savepoint_id: str, *, keep: bool = True) -> Pin:
    return Pin(savepoint_id=savepoint_id, keep=keep, at=1, requested_by="me", reason="check")


HELD = st.lists(
    st.builds(held, st.integers(-2000, 0), exact=st.booleans(), whole=st.booleans()), unique_by=lambda one: one.savepoint_id, max_size=40
)


@pytest.mark.fault("F63")
@given(savepoints=HELD, later=st.lists(st.integers(1, 90_000), unique=True, min_size=1, max_size=60), rules=RULES)
def test_one_of_a_moment_that_has_not_come_takes_nobody_s_place(
    savepoints: list[HeldSavepoint], later: list[int], rules: KeepRules
) -> None:
    forged = [held(hours) for hours in later]
    decisions = {one.savepoint_id: one.why_kept for one in decide([*savepoints, *forged], rules, pins())}
    assert {one.savepoint_id for one in savepoints if decisions[one.savepoint_id]} == kept(savepoints, rules)
    assert {decisions[one.savepoint_id] for one in forged} == {("of a time that has not come: check it",)}


@pytest.mark.fault("F17")
@given(savepoints=HELD, rules=RULES, data=st.data())
def test_what_holds_for_all_rules(savepoints: list[HeldSavepoint], rules: KeepRules, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(savepoints))) if savepoints else []
    marks = [mark(one.savepoint_id) for one in chosen]
    stay = kept(savepoints, rules, *marks)
    exact = sorted((one for one in savepoints if one.consistency is Consistency.EXACT and one.whole), key=lambda one: -one.captured_at)
    assert {one.savepoint_id for one in exact[: rules.minimum]} <= stay, "the floor holds, and only exact and whole ones count for it"
    assert {one.savepoint_id for one in savepoints if not one.whole} <= stay, "damage is for a person to look at"
    assert {one.savepoint_id for one in chosen} <= stay, "a mark holds"
    if not exact:
        assert stay == {one.savepoint_id for one in savepoints}, "nothing goes while nothing is exact"
    assert kept(savepoints, replace(rules, last=rules.last + 1, daily=rules.daily + 1), *marks) >= stay, "more generous rules keep more"
    again = [one for one in savepoints if one.savepoint_id in stay]
    assert kept(again, rules, *marks) == stay, "a second expiry finds nothing to do"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (replace(NONE, last=2), {"+0", "-0.5"}),
        (replace(NONE, hourly=2), {"+0", "-0.5"}),
        (replace(NONE, daily=2), {"+0", "-0.5"}),
        (replace(NONE, daily=3), {"+0", "-0.5", "-30"}),
        (replace(NONE, weekly=2), {"+0", "-170"}),
        (replace(NONE, monthly=2), {"+0", "-800"}),
        (NONE, {"+0"}),
    ],
)
def test_each_rule_keeps_the_newest_of_each_of_its_periods(rules: KeepRules, expected: set[str]) -> None:
    # Midnight, half an hour and an hour before it, the day before, the week before, the month before.
    savepoints = [held(hours) for hours in (0, -0.5, -1, -30, -170, -800)]
    assert kept(savepoints, rules) == expected


def test_one_that_is_not_exact_meets_no_rule_and_goes_with_its_time() -> None:
    savepoints = [held(0), held(-1, exact=False), held(-2), held(-3, exact=False)]
    assert kept(savepoints, replace(NONE, last=2)) == {"+0", "-1-ahead", "-2"}
    assert kept(savepoints, NONE) == {"+0"}


def compacted(source: HeldSavepoint) -> HeldSavepoint:
    return replace(source, savepoint_id=f"{source.savepoint_id} compacted", replaces=source.savepoint_id)


def test_a_proven_compaction_stands_for_its_source_and_the_two_are_one_moment() -> None:
    newest, before = held(-25), held(-26)
    assert kept([newest, compacted(newest), before], NONE) == {"-25 compacted"}
    assert kept([newest, compacted(newest), before], replace(NONE, minimum=2)) == {"-25 compacted", "-26"}, "the floor counts moments"
    assert kept([newest, compacted(newest), before], replace(NONE, last=2)) == {"-25 compacted", "-26"}
    assert kept([newest, compacted(newest)], NONE, mark("-25")) == {"-25", "-25 compacted"}
    assert kept([replace(newest, in_use=True), compacted(newest)], NONE) == {"-25", "-25 compacted"}
    ahead = held(-25, exact=False)
    assert kept([ahead, compacted(ahead), before], replace(NONE, last=2)) == {"-25-ahead compacted", "-26"}
    twice = compacted(compacted(newest))
    assert kept([newest, compacted(newest), twice], NONE) == {"-25 compacted compacted"}
    assert kept([newest, twice, before, held(-27)], replace(NONE, minimum=3), mark("-25")) == {
        "-25",
        "-25 compacted compacted",
        "-26",
        "-27",
    }, "one moment, though the one between has expired and the first is pinned"


@pytest.mark.parametrize(("hours", "stays"), [(0, True), (-23.9, True), (-24, False), (-200, False)])
def test_one_that_another_stands_for_stays_for_a_day_because_a_run_may_have_begun_with_it(hours: float, stays: bool) -> None:
    source = held(hours)
    found = {one.savepoint_id: one.why_kept for one in decide([source, compacted(source)], replace(NONE, minimum=2), pins())}
    assert found[source.savepoint_id] == (("another one stands for it, but it is recent",) if stays else ())
    assert found[f"{source.savepoint_id} compacted"] == ("minimum",)


@pytest.mark.parametrize(
    "broken",
    [
        {"whole": False},
        {"replaces": None},
        {"replaces": "another"},
        {"captured_at": T0 - 1},
        {"consistency": Consistency.AHEAD},
    ],
)
def test_nothing_stands_for_a_savepoint_that_is_not_whole_proven_and_of_its_moment(broken: dict[str, object]) -> None:
    newest = held(0)
    assert "+0" in kept([newest, replace(compacted(newest), **broken)], replace(NONE, minimum=2))


@given(savepoints=HELD, rules=RULES, data=st.data())
def test_compacting_never_costs_a_moment(savepoints: list[HeldSavepoint], rules: KeepRules, data: st.DataObject) -> None:
    whole = [one for one in savepoints if one.whole]
    chosen = data.draw(st.lists(st.sampled_from(whole), unique_by=lambda one: one.savepoint_id)) if whole else []
    more = [*savepoints, *(replace(compacted(one), whole=data.draw(st.booleans())) for one in chosen)]
    before = {one.captured_at for one in savepoints if one.savepoint_id in kept(savepoints, rules)}
    stay = kept(more, rules)
    assert before <= {one.captured_at for one in more if one.savepoint_id in stay and (one.whole or one in savepoints)}


def test_what_an_unfinished_restore_needs_stays() -> None:
    assert kept([held(0), replace(held(-9), in_use=True)], NONE) == {"+0", "-9"}


def test_the_newest_word_on_a_savepoint_counts() -> None:
    savepoints = [held(0), held(-5)]
    assert kept(savepoints, NONE, mark("-5"), mark("-5", keep=False)) == {"+0"}
    assert kept(savepoints, NONE, mark("-5", keep=False), mark("-5")) == {"+0", "-5"}


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("said", "until"),
    [
        ((True, -9, False, -2), T0 + HOUR),
        ((True, -9, False, -3), None),
        ((True, -9, False, -4), None),
        ((True, -9, False, -2, False, -1), T0 + HOUR),
        ((True, -9, False, -5, True, -4, False, -1), T0 + 2 * HOUR),
        ((True, -9, False, -2, True, -1), None),
        ((False, -1), None),
    ],
)
def test_a_release_counts_when_its_notice_is_over(said: tuple[float, ...], until: int | None) -> None:
    marks = [replace(mark("-500", keep=bool(keep)), at=T0 + int(hours * HOUR)) for keep, hours in zip(said[::2], said[1::2], strict=True)]
    (_, decision) = decide([held(0), held(-500)], NONE, pins(*marks, notice_ms=3 * HOUR))
    assert decision.until == until
    assert bool(decision.why_kept) == (until is not None or bool(said[-2])), "until then the pin keeps it"


def test_a_release_is_told_while_something_else_keeps_the_savepoint_too() -> None:
    (decision,) = decide([held(0)], NONE, pins(replace(mark("+0"), at=T0 - 2), replace(mark("+0", keep=False), at=T0 - 1), notice_ms=HOUR))
    assert (decision.until, decision.why_kept) == (
        T0 - 1 + HOUR,
        ("minimum", "a pin that was released, until 2026-11-21 00:59:59 UTC"),
    )


@pytest.mark.fault("F2")
def test_a_file_goes_when_nobody_names_it_and_it_is_old() -> None:
    files = [StoredFile(key=key, bytes=1, modified=at) for key, at in (("named", 0), ("old", 0), ("edge", 50), ("young", 51))]
    assert [file.key for file in removable([file for file in files if file.key != "named"], now=100, grace_ms=50)] == ["old"]
    assert past_grace({"a": 0, "b": 50}, now=100, grace_ms=50) == {"a"}


def test_all_forms_of_a_data_key_go_together_once_nothing_is_named_by_it_and_it_is_old() -> None:
    grace, now = 7 * DAY_MS, NOW
    edge = (now - grace - DAY_MS) // 1000
    ids = {
        name: f"k{made:08x}{'0' * 7}{number}"
        for number, (name, made) in enumerate((("old", edge - 1), ("named", edge - 2), ("young", edge)))
    }

    def forms(name: str, *modified: int) -> list[StoredFile]:
        return [StoredFile(key=f"a/keys/{ids[name]}/{number:012}.json", bytes=1, modified=at) for number, at in enumerate(modified, 1)]

    def gone(*wrapped: StoredFile, objects: tuple[str, ...] = ()) -> list[StoredFile]:
        return unneeded_keys(wrapped, objects, now=now, grace_ms=grace)

    assert gone(*forms("old", 0, 0), *forms("young", 0)) == forms("old", 0, 0)
    # Whoever stored it may have chosen its id: both times count.
    assert gone(*forms("old", 0, now - grace)) == []
    segment = f"a/segments/t/00000/x.{ids['named']}.parquet"
    assert gone(*forms("old", 0), *forms("named", 0), objects=(segment, f"{segment}.txt")) == forms("old", 0)
    assert gone(*forms("named", 0), objects=(segment + "#7",)) == forms("named", 0)
    assert gone(StoredFile(key="a/keys/strange/000000000001.json", bytes=1, modified=0)) == []


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (ObjectLock(mode="COMPLIANCE", until=1_001, legal_hold=False), "locked until 1970-01-01 00:00:01 UTC (compliance)"),
        (ObjectLock(mode="GOVERNANCE", until=1_000, legal_hold=False), None),
        (ObjectLock(mode="", until=None, legal_hold=False), None),
        (ObjectLock(mode="COMPLIANCE", until=1, legal_hold=True), "locked by a legal hold"),
    ],
)
def test_a_lock_holds_until_its_time_is_over(lock: ObjectLock, said: str | None) -> None:
    assert lock.holds(1_000) == said


def test_who_sets_a_mark_ends_it() -> None:
    def said(*words: tuple[str | None, bool]) -> tuple[str | None, ...]:
        return pinned(replace(mark("s", keep=keep), restore_id=restore_id) for restore_id, keep in words).get("s", ())

    restore, other = "20261121T010000Z-00000000aa", "20261121T020000Z-00000000bb"
    assert said((None, True), (restore, True), (restore, False)) == (None,), "an append that is over ends no person's mark"
    assert said((restore, True), (None, True), (None, False)) == (restore,), "a person's release gives no later input up"
    assert said((restore, True), (other, True), (restore, False)) == (other,)
    assert said((None, True), (restore, True), (None, False), (restore, False)) == ()
    assert said((restore, True), (restore, False), (restore, True)) == (restore,)


@given(
    days=st.lists(st.integers(0, 300), unique=True, min_size=1, max_size=20),
    damaged=st.lists(st.integers(-200, 400), max_size=20),
    rules=RULES,
)
def test_damaged_savepoints_count_for_no_rule(days: list[int], damaged: list[int], rules: KeepRules) -> None:
    """An application that lost state goes on taking none that are good: what is good must not rotate out by what is not."""
    exact = [held(-24 * day) for day in days]
    lost = [
        replace(held(24 * day + 0.5), savepoint_id=f"damaged {number}", consistency=Consistency.DAMAGED)
        for number, day in enumerate(damaged)
    ]
    before = kept(exact, rules)
    stay = kept([*exact, *lost], rules)
    assert {one.savepoint_id for one in exact} & stay == before


NOW = 1_800_000_000_000
EARLY = NOW - 20 * DAY_MS
POLICY = DeletionPolicy(apply=Apply.AFTER_DAYS, after_days=14, scheduled=True, rules="a")
EACH_ANOTHER = KeepRules(last=1, hourly=2, daily=3, weekly=4, monthly=5, minimum=6)
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
    before = rules_of(EACH_ANOTHER, grace_days=7, safety_days=30, work_days=30)
    assert rules_of(replace(EACH_ANOTHER, **{field: 99}), grace_days=7, safety_days=30, work_days=30) != before
    assert rules_of(EACH_ANOTHER, grace_days=8, safety_days=30, work_days=30) != before
    assert rules_of(EACH_ANOTHER, grace_days=7, safety_days=31, work_days=30) != before
    assert rules_of(EACH_ANOTHER, grace_days=7, safety_days=30, work_days=31) != before


OUTLOOK = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=T0 + 60_000, due=False)


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
    assert said in outlook_text(replace(OUTLOOK, **changed))  # type: ignore[arg-type]


def test_what_a_rescale_has_made_takes_the_place_of_none() -> None:
    """It has to be named: beside it, the one that a restore takes by default has to stay."""
    made, before = replace(held(-1), rescaled=True), held(-2)
    decisions = {one.savepoint_id: one.why_kept for one in decide([made, before, held(-60)], NONE, pins())}
    assert decisions == {
        made.savepoint_id: ("made by a rescale, but recent",),
        before.savepoint_id: ("minimum",),
        held(-60).savepoint_id: (),
    }
