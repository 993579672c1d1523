"""Handing outputs over: what is refused, what is counted, and that nothing is lost either way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.checks.check import Occasion
from streams_recovery.core.checks.runs import WRITER, WriterFacts
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import Consistency, TopicPartition
from streams_recovery.core.preflight.findings import as_findings
from streams_recovery.core.repository.ownership import (
    Counterpart,
    OwnershipEntry,
    Role,
    agreed,
    contradictions,
    moved_since,
    role_of,
    start_as,
    unanswered,
    would_count,
)
from streams_recovery.core.rollout.cutover import (
    CutoverStep,
    beyond,
    comparison_problems,
    counts_text,
    cutover_plan,
    cutover_text,
    further,
    problems,
    unwritten,
    upgrade_plan,
    upgrade_problems,
    upgrade_text,
)
from tests.support.examples.cutover import CLONE, OLD, origin, pair

CUT_OVER, ROLL_BACK = CutoverStep
DOWN: dict[str, object] = {"alive": ()}
Offsets = dict[TopicPartition, int]
OFFSETS = st.dictionaries(st.sampled_from([TopicPartition("in", number) for number in range(3)]), st.integers(0, 1_000))


def owner_entry(role: Role, other: str = CLONE) -> OwnershipEntry:
    return OwnershipEntry(role=role, other=other, run="r", at=1, offsets={}, again={}, tail={})


@given(OFFSETS, OFFSETS)
def test_what_one_has_read_beyond_the_other_makes_both_equal(one: Offsets, other: Offsets) -> None:
    more, less = beyond(one, other), beyond(other, one)
    assert not set(more) & set(less)
    assert all(count > 0 for count in (*more.values(), *less.values()))
    for name in {*one, *other}:
        assert one.get(name, 0) + less.get(name, 0) == other.get(name, 0) + more.get(name, 0)


@given(OFFSETS, OFFSETS)
def test_no_cut_over_begins_by_which_output_would_be_missing(old: Offsets, clone: Offsets) -> None:
    found = pair(old={"committed": old, **DOWN}, clone={"committed": clone}, lag={})
    refused = [one for one in problems(found, CUT_OVER, max_lag=0) if "output would be missing" in one]
    assert bool(refused) == any(offset > old.get(name, 0) for name, offset in clone.items())
    # While the old application runs it reads on, and is waited for.
    assert problems(replace(found, old=replace(found.old, alive=("one",))), CUT_OVER, max_lag=0) == ()


@given(OFFSETS, OFFSETS)
def test_what_comes_twice_is_what_the_one_that_goes_on_has_not_read_yet(old: Offsets, clone: Offsets) -> None:
    beside = pair(old={"committed": old}, clone={"committed": clone})
    assert cutover_plan(beside, CUT_OVER).again == beyond(old, clone)
    live = pair(old={"committed": old, "role": Role.RETIRED}, clone={"committed": clone, "role": Role.LIVE})
    assert cutover_plan(live, ROLL_BACK).again == beyond(clone, old)
    # What is done already hands nothing over any more.
    assert cutover_plan(live, CUT_OVER).again == cutover_plan(beside, ROLL_BACK).again == {}


@given(OFFSETS, st.integers(0, 2_000))
def test_the_limit_of_the_lag_is_a_limit(ends: dict[str, int], max_lag: int) -> None:
    found = pair(old={"committed": ends}, clone={"committed": {}}, lag=ends)
    refused = any("records behind its input" in one for one in problems(found, CUT_OVER, max_lag=max_lag))
    assert refused == (sum(ends.values()) > max_lag)


@pytest.mark.fault("F63")
@pytest.mark.parametrize("side", ["old", "clone"])
def test_an_entry_towards_nobody_is_not_proven_and_a_roll_back_ends_it(side: str) -> None:
    found = pair(**{side: {"stranger": "nobody"}})
    (told,) = problems(found, CUT_OVER, max_lag=1_000)
    assert "names nobody, and no application of that id is configured: the entry is not proven. Roll orders-next back" in told
    assert told in upgrade_problems(found)
    assert problems(found, ROLL_BACK, max_lag=0) == ()
    used = pair(**{side: {"stranger": "nobody", "stranger_in_use": ("consumer group nobody in state Stable",)}})
    (told,) = problems(used, ROLL_BACK, max_lag=0)
    assert "nobody is in use (consumer group nobody in state Stable): configure it, or stop it" in told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clone": {"inputs": ("in", "more")}}, "inputs differ: more are read by one of the two only"),
        ({"clone": {"globals": ()}}, "globals differ: names"),
        ({"clone": {"unknown": ("two (pod 2)",)}}, "the state of instances of orders-next is unknown: two (pod 2)"),
        ({"old": {"other": "orders-third", "role": Role.RETIRED, **DOWN}}, "orders is retired towards orders-third, not orders-next"),
        ({"same_cluster": False}, "not on one cluster"),
        ({"origin": None}, "orders-next was not restored from a savepoint"),
        ({"origin": origin(source="bills")}, "the state of orders-next is that of bills, not of orders"),
        ({"origin": origin(consistency=Consistency.AHEAD)}, "comes from savepoint s1, which is ahead"),
        ({"origin": origin(proven=False)}, "it was not proven equal"),
        ({"origin": origin(offsets="latest")}, "began at offsets by `latest`"),
        ({"clone": {"unfinished": "r9"}}, "restore r9 of orders-next failed half way"),
        ({"clone": {"transactional": False, "clean": False, **DOWN}}, "orders-next was not seen to close cleanly"),
        ({"clone": {"committed": {TopicPartition("in", 0): 4}}}, "6 records behind its input, more than 5: in-0 by 6"),
        (
            {"old": {"unread": {TopicPartition("by-key", 0): 3}, **DOWN}},
            "down with unread records in repartition topics, whose output would be missing: by-key-0 by 3",
        ),
    ],
)
def test_a_cut_over_is_refused_and_says_why(changes: dict[str, Any], said: str) -> None:
    assert problems(pair(), CUT_OVER, max_lag=5) == ()
    [found] = problems(pair(**changes), CUT_OVER, max_lag=5)
    assert said in found


def test_everything_is_said_at_once() -> None:
    found = problems(pair(clone={"inputs": ("other",), "committed": {}}, origin=None), CUT_OVER, max_lag=0)
    assert len(found) == 3


def test_a_cut_over_that_broke_off_may_be_finished() -> None:
    # The old application was stopped after it had been seen to have read everything, or is on record as replaced already.
    tail = {TopicPartition("by-key", 0): 3}
    assert problems(pair(old={"unread": tail, **DOWN}, clone=DOWN, old_has_read=True), CUT_OVER, max_lag=0) == ()
    done = pair(old={"role": Role.RETIRED, "other": CLONE, **DOWN}, clone={"role": Role.LIVE, "other": OLD, "committed": {}, **DOWN})
    assert problems(done, CUT_OVER, max_lag=0) == (), "only a start is missing"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"starts": {TopicPartition("in", 0): 12}}, "orders would skip input that was deleted since it stopped: in-0 by 2"),
        (
            {"old": {"retired_offsets": {TopicPartition("in", 0): 11}, **DOWN}},
            "offsets of orders are not those it had when it was retired: in-0",
        ),
        ({"old": {"unfinished": "r9", **DOWN}}, "restore r9 of orders failed half way"),
    ],
)
def test_a_way_back_to_what_is_no_longer_as_it_was_is_refused_unless_it_is_restored_first(changes: dict[str, Any], said: str) -> None:
    found = pair(**{"old": DOWN, **changes})
    [problem] = problems(found, ROLL_BACK, max_lag=0)
    assert said in problem
    assert "restore_first" in problem
    assert problems(found, ROLL_BACK, max_lag=0, restore_first=True) == ()


def test_an_input_of_a_pattern_that_is_gone_is_named_and_does_not_keep_the_old_application_down() -> None:
    retired = {"retired_offsets": {TopicPartition("in", 0): 10, TopicPartition("gone", 0): 4}, **DOWN}
    assert problems(pair(old=retired), ROLL_BACK, max_lag=0) == ()
    [warning] = cutover_plan(pair(old=retired), ROLL_BACK).warnings
    assert (warning.endswith("is lost: gone"), cutover_plan(pair(old=DOWN), ROLL_BACK).warnings) == (True, ())


def test_a_way_back_needs_nothing_of_the_clone() -> None:
    bad = pair(old={"role": Role.RETIRED, **DOWN}, clone={"inputs": (), "unfinished": "r9", "clean": False}, origin=None)
    assert problems(bad, ROLL_BACK, max_lag=0) == ()
    unclean = pair(old={"transactional": False, "clean": False, **DOWN})
    assert "counted twice" in cutover_plan(unclean, ROLL_BACK).warnings[0]


def test_an_upgrade_in_one_go_needs_a_clone_that_is_down_and_reads_the_same() -> None:
    assert upgrade_problems(pair(clone=DOWN, origin=None)) == ()
    assert ["runs (one (pid 1))" in one for one in upgrade_problems(pair())] == [True]
    for changes in (
        {"clone": {"role": Role.LIVE, **DOWN}},
        {"clone": {"inputs": (), **DOWN}},
        {"clone": DOWN, "old": {"unfinished": "r9"}},
    ):
        assert len(upgrade_problems(pair(**changes))) == 1, changes  # type: ignore[arg-type]


def test_a_plan_is_the_same_as_long_as_the_same_is_done() -> None:
    plan = cutover_plan(pair(), CUT_OVER)
    assert plan.hash == cutover_plan(pair(clone={"committed": {TopicPartition("in", 0): 3}}), CUT_OVER).hash, (
        "counts move while a person reads"
    )
    others = [cutover_plan(pair(), ROLL_BACK), cutover_plan(pair(outputs={"next.out": "other"}), CUT_OVER)]
    assert len({plan.hash, *(other.hash for other in others)}) == 3


def test_a_plan_can_be_read() -> None:
    text = cutover_text(
        cutover_plan(pair(clone={"committed": {TopicPartition("in", 0): 4}, "unread": {TopicPartition("by-key", 0): 2}}), CUT_OVER)
    )
    assert "Cut over from `orders` to `orders-next`" in text
    assert "next.out → out" in text
    assert "output of **6 input records** would come twice" in text
    assert "2 unread records of repartition topics" in text
    assert "| in-0 | 10 | 4 | 6 | 6 |" in text
    assert "Roll back from `orders-next` to `orders`" in cutover_text(cutover_plan(pair(), ROLL_BACK))
    fewer = pair(old={"outputs": ("out", "late")})
    (text,) = unwritten(fewer)
    assert (text.endswith("does not write: late"), unwritten(pair())) == (True, ())
    unwritten_text = upgrade_text(upgrade_plan(fewer))
    assert text in unwritten_text
    assert unwritten_text.count("does not write") == 1
    assert "does not write" not in cutover_text(cutover_plan(fewer, ROLL_BACK))
    assert "compared record by record." in unwritten_text
    assert "next.out → out" in unwritten_text


def test_a_plan_says_what_is_known_of_the_outputs_and_is_the_same_plan_without_it() -> None:
    said, silent = cutover_plan(pair(), CUT_OVER, "Outputs compared 3 min ago: equal."), cutover_plan(pair(), CUT_OVER)
    assert "Outputs compared 3 min ago: equal." in cutover_text(said)
    assert said.hash == silent.hash, "a comparison that is new or old is no other plan"
    back = cutover_plan(pair(), ROLL_BACK, "Outputs compared 3 min ago: equal.")
    assert "compared" not in cutover_text(back)


def test_outputs_are_comparable_from_an_exact_state_on_and_while_each_writes_its_own() -> None:
    assert comparison_problems(pair()) == ()
    assert comparison_problems(pair(old=DOWN, clone=DOWN)) == (), "two that are down and have read the same are comparable"
    unlike: tuple[dict[str, Any], ...] = (
        {"same_cluster": False},
        {"clone": {"inputs": ()}},
        {"old": {"unfinished": "r9"}},
        {"origin": None},
        {"origin": origin(consistency=Consistency.AHEAD)},
        {"origin": origin(offsets="earliest")},
        {"origin": origin(altered=("next-totals-changelog",))},
        {"clone": {"role": Role.LIVE}, "old": {"role": Role.RETIRED}},
    )
    for changes in unlike:
        assert len(comparison_problems(pair(**changes))) == 1, changes


def test_an_output_of_the_clone_that_the_old_application_does_not_write_is_a_further_one() -> None:
    assert (further(pair()), further(pair(outputs={"next.out": "out", "next.more": "more"}))) == ((), ("more",))


def test_many_partitions_are_cut_short() -> None:
    assert counts_text({TopicPartition("in", number): 1 for number in range(12)}).endswith(" by 1 and 2 more")


def test_an_application_is_live_unless_it_is_a_clone_or_was_replaced() -> None:
    assert (role_of(None, is_clone=False), role_of(None, is_clone=True)) == (Role.LIVE, Role.STANDBY)
    assert {role_of(owner_entry(role), is_clone=clone) for role in Role for clone in (True, False)} == set(Role)


def at(role: Role, other: str, *offsets: int) -> OwnershipEntry:
    return replace(owner_entry(role, other), offsets=in_order(*offsets))


def in_order(*offsets: int) -> Offsets:
    return {TopicPartition("in", number): offset for number, offset in enumerate(offsets)}


def run_of(run: str, role: Role, other: str) -> OwnershipEntry:
    return replace(owner_entry(role, other), run=run)


OVER, BACK = (
    (run_of("r1", Role.LIVE, OLD), run_of("r1", Role.RETIRED, CLONE)),
    (run_of("r2", Role.STANDBY, OLD), run_of("r2", Role.LIVE, CLONE)),
)


@pytest.mark.fault("F81")
@pytest.mark.parametrize(
    ("transfers", "expected"), [((), Role.STANDBY), ((OVER,), Role.LIVE), ((OVER, BACK), Role.STANDBY)], ids=["never", "over", "back"]
)
def test_what_a_clone_is_by_both_logs_no_entry_in_one_of_them_changes(
    transfers: tuple[tuple[OwnershipEntry, OwnershipEntry], ...], expected: Role
) -> None:
    own, theirs = [mine for mine, _ in transfers], [other for _, other in transfers]
    assert agreed(own, theirs, application_id=CLONE, of=OLD).role is expected
    for role in Role:
        for run in ("r1", "r2", "r3"):
            for other in (OLD, CLONE, "nobody"):
                forged = run_of(run, role, other)
                assert agreed([*own, forged], theirs, application_id=CLONE, of=OLD).role is expected
                assert agreed(own, [*theirs, forged], application_id=CLONE, of=OLD).role is expected


@pytest.mark.fault("F81")
def test_a_run_that_was_left_without_its_answer_is_known_and_one_that_others_have_followed_counts_no_more() -> None:
    both = {"application_id": CLONE, "of": OLD}
    (live, retired), (standby, back) = OVER, BACK
    left = run_of("r0", Role.RETIRED, CLONE)
    assert unanswered([live], [left, retired], **both) == ("r0",)
    assert unanswered([live, run_of("r0", Role.STANDBY, OLD)], [left, retired], **both) == ()
    # An upgrade that was taken back has both entries in one log.
    assert unanswered([], [left, run_of("r0", Role.LIVE, CLONE)], **both) == ("r0",)
    assert would_count("r1", Role.LIVE, [], [], **both)
    assert would_count("r1", Role.LIVE, [], [retired], **both), "it is finished by the run that was killed"
    assert would_count("r1", Role.LIVE, [live], [retired], **both)
    assert would_count("r2", Role.STANDBY, [live, standby], [retired], **both)
    assert not would_count("r1", Role.LIVE, [live, standby], [retired, back], **both), (
        "it would be on record as live, and count as a standby"
    )
    assert not would_count("r0", Role.LIVE, [run_of("r0", Role.STANDBY, OLD)], [left], **both), "it was taken back"


ALIVE = ("one (pid 1)",)
RETIRED = at(Role.RETIRED, CLONE)
BELIEVED = "orders transferred its outputs to orders-next"


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("last", "seen", "clone", "expected"),
    [
        (RETIRED, {}, False, BELIEVED),
        (RETIRED, {"in_use": ALIVE, "last": at(Role.LIVE, OLD)}, False, BELIEVED),
        # An entry that the configuration or the application's own offsets contradict keeps nobody down,
        (RETIRED, {"related": False}, False, Role.LIVE),
        (RETIRED, {"moved": ("in-0",)}, False, Role.LIVE),
        (RETIRED, {"moved": ("in-0",), "in_use": ALIVE}, False, Role.LIVE),
        # unless both might write the outputs then.
        (RETIRED, {"related": False, "in_use": ALIVE}, False, "no clone of it"),
        (RETIRED, {"moved": ("in-0",), "in_use": ALIVE, "last": at(Role.LIVE, OLD)}, False, "both might write"),
        (at(Role.LIVE, CLONE), {}, False, Role.LIVE),
        (at(Role.LIVE, CLONE), {"in_use": ALIVE, "last": at(Role.STANDBY, OLD)}, False, Role.LIVE),
        (at(Role.LIVE, CLONE), {"in_use": ALIVE, "last": at(Role.LIVE, OLD)}, False, "both might write"),
        # A clone gets the real outputs only when everything agrees,
        (at(Role.LIVE, OLD), {"last": RETIRED}, True, Role.LIVE),
        (at(Role.LIVE, OLD), {"last": None}, True, "does not say that it transferred"),
        (at(Role.LIVE, OLD), {"last": at(Role.LIVE, CLONE)}, True, "does not say that it transferred"),
        (at(Role.LIVE, OLD), {"last": at(Role.RETIRED, "another")}, True, "does not say that it transferred"),
        (at(Role.LIVE, OLD), {"last": RETIRED, "in_use": ALIVE}, True, "orders is in use: one"),
        (at(Role.LIVE, OLD), {"last": RETIRED, "moved": ("in-0",)}, True, "has committed other offsets since"),
        (at(Role.LIVE, "another"), {"last": RETIRED}, True, "its log names another"),
        # and its own only while the outputs belong to the other one.
        (None, {}, True, Role.STANDBY),
        (at(Role.STANDBY, OLD), {"last": at(Role.LIVE, CLONE)}, True, Role.STANDBY),
        (at(Role.STANDBY, OLD), {"last": RETIRED}, True, "neither of the two may be started"),
        (at(Role.STANDBY, OLD), {"last": RETIRED, "moved": ("in-0",)}, True, Role.STANDBY),
    ],
)
def test_an_entry_counts_only_as_far_as_everything_else_agrees(
    last: OwnershipEntry | None, seen: dict[str, Any], clone: bool, expected: Role | str
) -> None:
    me, other = (CLONE, OLD) if clone else (OLD, CLONE)
    found = Counterpart(**{"other": other, "related": True, "moved": (), "in_use": (), "last": None, **seen})
    if isinstance(expected, Role):
        assert start_as(last, found, application_id=me, is_clone=clone) is expected
    else:
        with pytest.raises(Refused, match=expected):
            start_as(last, found, application_id=me, is_clone=clone)


def test_offsets_that_are_gone_have_not_moved() -> None:
    entry = at(Role.RETIRED, CLONE, 5, 7)
    assert moved_since(entry, {}) == moved_since(entry, {**in_order(5), TopicPartition("other", 0): 1}) == ()
    assert moved_since(entry, in_order(6, 6)) == ("in-0", "in-1")


@pytest.mark.remedy("outputs-log", "outputs-one-writer", "outputs-roll-back")
@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    ("last", "seen", "clone", "source", "severity"),
    [
        (owner_entry(Role.RETIRED), {}, False, OLD, "blocking"),
        (owner_entry(Role.LIVE, OLD), {"last": RETIRED}, True, OLD, "blocking"),
        (owner_entry(Role.LIVE, OLD), {"last": RETIRED}, True, CLONE, None),
        (owner_entry(Role.LIVE), {}, False, OLD, None),
        (owner_entry(Role.STANDBY, OLD), {}, True, OLD, None),
        # One forged entry holds no restore up,
        (owner_entry(Role.RETIRED), {"related": False}, False, OLD, "warning"),
        (owner_entry(Role.RETIRED), {"moved": ("in-0",)}, False, OLD, "warning"),
        # and gives no clone the outputs of another: a restore may make these anew.
        (owner_entry(Role.LIVE, OLD), {"last": None}, True, CLONE, "blocking"),
        (owner_entry(Role.LIVE, OLD), {"last": RETIRED, "in_use": ALIVE}, True, CLONE, "blocking"),
        (owner_entry(Role.LIVE, OLD), {"last": RETIRED, "moved": ("in-0",)}, True, CLONE, "blocking"),
    ],
)
def test_what_must_not_be_restored_is_refused_before_anything_is_touched(
    last: OwnershipEntry, seen: dict[str, Any], clone: bool, source: str, severity: str | None
) -> None:
    me, other = (CLONE, OLD) if clone else (OLD, CLONE)
    found = Counterpart(**{"other": other, "related": True, "moved": (), "in_use": (), "last": None, **seen})
    against = contradictions(last, found, application_id=me, is_clone=clone)
    told = as_findings(WRITER.ask(Occasion.RESTORE, WriterFacts(last=last, application_id=me, source=source, against=against)))
    assert [one.severity for one in told] == ([] if severity is None else [severity])
    kind = "outputs-roll-back" if not against else "outputs-log" if last.role is Role.RETIRED else "outputs-one-writer"
    assert [one.remedy.kind.id for one in told] == ([] if severity is None else [kind])
