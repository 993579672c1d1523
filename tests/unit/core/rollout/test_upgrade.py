"""What a new version is to be, and when it is no good."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.rollout.compatibility import ALLOW_DOUBT, CompatibilityVerdict, TopologyDifference
from streams_recovery.core.rollout.described import DescribedTopology
from streams_recovery.core.rollout.topology_comparison import compare
from streams_recovery.core.rollout.upgrade import (
    Restarts,
    VersionChange,
    Watch,
    Watched,
    WatchLook,
    check_worse,
    version_change,
    watched_for,
)
from tests.support.examples.topologies import APPLICATION, counting, processor, regrouping, saved, source, topology

LIMITS = Watch(seconds=60, max_lag=100, patience=20)
BACK = ("deploy", "old")


def look(at: float, *, behind: int = 0, committed: int = 5, **more: object) -> WatchLook:
    return WatchLook(**{"at": at, "ended": (), "busy": (), "behind": {"in": behind}, "committed": {"in": committed}} | more)


def seen(*looks: WatchLook, limits: Watch = LIMITS) -> Watched:
    found = Watched()
    for one in looks:
        found = found.after(one, limits)
    return found


def test_a_version_that_works_off_its_input_is_good() -> None:
    found = seen(look(0, behind=90, committed=5), look(10, behind=20, committed=75), look(60))
    assert (found.failure, found.looks, found.seconds, found.behind, found.most_behind) == (None, 3, 60, 0, 90)


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ((look(0), look(2, ended=("one ERROR",))), "instances ended: one ERROR"),
        ((look(0), look(5, busy=("one REBALANCING",)), look(25, busy=("one REBALANCING",))), "not at work for 25 s: one REBALANCING"),
        ((look(0, behind=3), look(20, behind=3)), "3 records of in are left, and nothing was committed there for 20 s"),
        ((look(0), look(30, behind=101, committed=6), look(50, behind=102, committed=7)), "101 records behind, and 100 are allowed"),
        ((look(0), look(59, committed=6), look(60, behind=101, committed=7)), "101 records behind, and 100 are allowed"),
    ],
)
def test_and_one_that_does_not_is_not(looks: tuple[WatchLook, ...], why: str) -> None:
    assert why in (seen(*looks).failure or "")


@pytest.mark.parametrize(
    "looks",
    [
        # A rebalance, a peak of input and a pause of the producers are no failures.
        (look(0), look(5, busy=("one REBALANCING",)), look(19, busy=("one REBALANCING",)), look(21), look(60)),
        (look(0), look(10, behind=5_000, committed=6), look(20, behind=90, committed=4_000), look(60)),
        (look(0, committed=5), look(30, committed=5), look(60, committed=5)),
        # At other work when the time is over: it is looked at for longer.
        (look(0), look(55), look(60, busy=("one REBALANCING",)), look(70)),
    ],
)
def test_what_passes_is_no_failure(looks: tuple[WatchLook, ...]) -> None:
    assert seen(*looks).failure is None


def test_a_topic_that_nobody_works_on_is_not_hidden_by_others_that_move() -> None:
    looks = [
        WatchLook(at=at, ended=(), busy=(), behind={"in": 0, "by-key-repartition": 7}, committed={"in": at, "by-key-repartition": 3})
        for at in (0, 10, 20)
    ]
    assert "7 records of by-key-repartition are left" in (seen(*looks).failure or "")


def test_when_nobody_can_be_asked_a_topic_that_stands_still_is_not_forgotten() -> None:
    stuck = seen(look(0, behind=3), look(10, behind=3)).unanswered(15, "no broker answered", LIMITS)
    assert (stuck.failure, stuck.over(LIMITS)) == (None, False)
    assert "3 records of in are left" in (stuck.after(look(20, behind=3), LIMITS).failure or "")
    assert "nobody could be asked for 20 s: no broker answered" in (stuck.unanswered(30, "no broker answered", LIMITS).failure or "")


@pytest.mark.fault("F111")
def test_a_program_that_ended_and_runs_again_by_the_next_look_is_seen_by_what_counts_that() -> None:
    one, two = ("orders-0", "10.0.0.1"), ("orders-1", "10.0.0.2")
    known = Restarts()
    assert known.more({one: 2, two: 0}) == frozenset(), "what was before the watch is not its business"
    assert known.more({one: 2, two: 0}) == frozenset()
    assert known.more({one: 2, two: 1}) == {two}
    assert known.more({one: 2, two: 1}) == {two}
    evicted = ("orders-0", "10.0.0.3")
    assert known.more({evicted: 0, two: 0}) == frozenset(), "a pod in the place of one that was evicted counts anew"
    assert known.more({evicted: 1}) == {evicted}


def test_a_watch_whose_time_was_over_before_anything_could_be_judged_is_no_success() -> None:
    assert "no look of 1" in (seen(look(0, busy=("one REBALANCING",))).without_an_end().failure or "")
    failed = seen(look(0, ended=("one",)))
    assert failed.without_an_end() == failed


def test_the_watch_is_over_when_its_time_is_and_all_are_at_work() -> None:
    busy = ("one REBALANCING",)
    assert [
        seen(*looks).over(LIMITS)
        for looks in (
            (look(0),),
            (look(0), look(59)),
            (look(0), look(60)),
            (look(0), look(55), look(60, busy=busy)),
            (look(0), look(55), look(60, busy=busy), look(62)),
            (look(0), look(1, ended=("one",))),
        )
    ] == [False, False, True, False, True, True]
    assert not Watched().over(replace(LIMITS, seconds=0))


def test_without_a_limit_it_may_be_behind_as_far_as_it_likes_while_it_works() -> None:
    free = replace(LIMITS, max_lag=None)
    assert seen(look(0, behind=10**9, committed=5), look(10, behind=10**9, committed=6), look(60, behind=0), limits=free).failure is None


@given(st.lists(st.tuples(st.floats(0.1, 15), st.integers(0, 100), st.booleans(), st.integers(0, 3)), max_size=30))
def test_a_failure_stays_and_each_says_why(steps: list[tuple[float, int, bool, int]]) -> None:
    at, committed, found, failed = 0.0, 0, Watched(), None
    for pause, behind, busy, moved in steps:
        at, committed = at + pause, committed + moved
        found = found.after(look(at, behind=behind, committed=committed, busy=("one REBALANCING",) if busy else ()), LIMITS)
        failed = failed or found.failure
        assert found.failure == failed
    # Up to 100 records are allowed, so only what stands still or is not at work can have failed.
    assert failed is None or "not at work" in failed or "nothing was committed" in failed


def change(version: str = "same", *, lose: tuple[str, ...] = (), **more: object) -> VersionChange:
    manifest = saved({"totals": 2}, **more)
    new = {
        "same": counting("totals"),
        "more": topology([source("read", "in"), processor("count", "read", "totals"), processor("again", "read", "more")]),
        "renamed": counting("sums"),
        "regrouped": regrouping("totals"),
    }[version]
    found = compare(APPLICATION, manifest, new, {}).accepting(lose)
    return version_change(APPLICATION, manifest, new, found, roll_back=BACK, watch=LIMITS)


def test_a_change_names_the_topics_that_the_new_version_would_make() -> None:
    assert (change().new_topics, change().wipes, change().verdict) == ((), False, CompatibilityVerdict.COMPATIBLE)
    assert change("more").new_topics == (f"{APPLICATION}-more-changelog",)


def test_nobody_waits_for_an_input_that_the_new_version_reads_no_more() -> None:
    assert change().left_inputs == frozenset()
    assert change(inputs={"in": 2, "clicks": 2}).left_inputs == {"clicks"}


def test_what_would_be_lost_is_refused_unless_it_may_go() -> None:
    with pytest.raises(Refused, match="rename these stores: totals"):
        change("renamed")
    assert change("renamed", lose=("totals",)).new_topics == (f"{APPLICATION}-sums-changelog",)
    with pytest.raises(Refused, match="state is lost for totals"):
        change("regrouped")


def test_a_doubt_stops_an_upgrade_until_a_person_has_looked_and_the_approval_is_for_exactly_that_doubt() -> None:
    manifest, before = saved({"totals": 2}, inputs={"in": 2, "clicks": 2}), counting("totals")

    def with_reader(name: str, *, doubt: bool) -> VersionChange:
        nodes = [*before.subtopologies[0].nodes, source("other", "clicks"), processor(name, "other", "totals")]
        found = compare(APPLICATION, manifest, topology(nodes), {}, before=before).accepting((), doubt=doubt)
        return version_change(APPLICATION, manifest, topology(nodes), found, roll_back=BACK, watch=LIMITS)

    with pytest.raises(Refused, match="cannot be told") as refused:
        with_reader("enrich", doubt=False)
    assert ALLOW_DOUBT in refused.value.next_step
    looked = with_reader("enrich", doubt=True)
    assert looked.done["doubts"] == [looked.findings[0].text]
    assert looked.findings[0].accepted
    check_worse(looked, with_reader("enrich", doubt=True))
    with pytest.raises(Refused, match="another one than was compared"):
        check_worse(looked, with_reader("count-too", doubt=True))


def test_local_state_goes_where_subtopologies_have_other_numbers() -> None:
    manifest, new = saved({"totals": 2}), counting("totals")
    found = compare(APPLICATION, manifest, new, {})
    moved = replace(
        found,
        findings=(
            *found.findings,
            *(
                replace(one, kind=TopologyDifference.SUBTOPOLOGY_MOVED, verdict=CompatibilityVerdict.COMPATIBLE)
                for one in compare(APPLICATION, manifest, counting("sums"), {}).findings[:1]
            ),
        ),
    )
    assert version_change(APPLICATION, manifest, new, moved, roll_back=BACK, watch=LIMITS).wipes


def test_an_approval_is_for_what_is_done_and_not_for_the_savepoint_that_was_compared() -> None:
    one = change("renamed", lose=("totals",))
    # With the next savepoint a topic that goes has records that were not read.
    kind = TopologyDifference.UNREAD_LOST
    other = replace(one, compared_with="another", findings=tuple(replace(found, text="12 records", kind=kind) for found in one.findings))
    assert one.done == other.done
    assert one.done != change("more").done


def test_what_was_found_only_now_stops_it() -> None:
    approved = change()
    check_worse(approved, change("more"))
    check_worse(change("renamed", lose=("totals",)), change("renamed", lose=("totals",)))
    with pytest.raises(Refused, match="another one than was compared"):
        check_worse(approved, change("renamed", lose=("totals",)))


@pytest.mark.parametrize("text", ["PT0S", "PT11H", "10m", ""])
def test_a_watch_takes_some_time_and_not_too_much(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        watched_for(text)


def test_ten_minutes() -> None:
    assert watched_for("PT10M") == 600


@pytest.mark.parametrize(("new", "may_go"), [(counting("sums"), True), (regrouping("totals"), False)])
def test_a_refusal_offers_to_lose_only_what_may_go(new: DescribedTopology, *, may_go: bool) -> None:
    manifest = saved({"totals": 2})
    found = compare(APPLICATION, manifest, new, {}, before=counting("totals"))
    with pytest.raises(Refused) as refused:
        version_change(APPLICATION, manifest, new, found, roll_back=BACK, watch=LIMITS)
    assert ("(--lose)" in refused.value.next_step) is may_go
