"""The estimate for an instant never promises more than what the status shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.core.restore.point_in_time import Moments
from streams_recovery.core.status.instant import Instant, Way, instant
from streams_recovery.core.status.look import InputAmount
from streams_recovery.core.status.report import ArchiveStatus, RunKind, RunSummary, SavepointSummary, StatusReport, newest_exact
from tests.support.examples.statuses import HOUR, NOW, report, summary

MOMENTS = st.integers(NOW - 30 * HOUR, NOW + HOUR)


@st.composite
def savepoints(draw: st.DrawFn) -> tuple[SavepointSummary, ...]:
    times = sorted(draw(st.sets(st.integers(NOW - 24 * HOUR, NOW), max_size=12)))
    labels = [(draw(st.sampled_from(Consistency)), draw(st.sampled_from(Profile))) for _ in times]
    return tuple(
        replace(
            summary(number, at=at, consistency=label, profile=profile),
            input_positions=draw(positions(number)),
            moments=draw(moments_from(at)),
        )
        for number, (at, (label, profile)) in enumerate(zip(times, labels, strict=True))
    )


def positions(number: int) -> st.SearchStrategy[dict[str, int] | None]:
    return st.sampled_from([None, {}, {"orders": 1_000 * number}, {"orders": 1_000 * number, "inventory": 7}])


def moments_from(at: int) -> st.SearchStrategy[Moments | None]:
    histories = st.sampled_from([None, "first", "second"])
    return st.none() | st.builds(Moments, history=histories, since=st.none() | st.integers(at - HOUR, at + HOUR))


@st.composite
def statuses(draw: st.DrawFn) -> StatusReport:
    known = draw(savepoints())
    exact = [one for one in known if one.consistency is Consistency.EXACT]
    return replace(report(), savepoints=known, newest=known[-1] if known else None, newest_exact=exact[-1] if exact else None)


@given(status=statuses(), moment=MOMENTS)
def test_what_comes_back_is_never_later_than_what_was_asked_for_or_than_what_is_stored(status: StatusReport, moment: int) -> None:
    found = instant(status, moment)
    assert (found.base is None) == (found.way is Way.NONE) == (found.reached is None)
    if found.base is None or found.reached is None:
        assert found.blockers
        return
    assert found.base in status.savepoints
    assert found.base.consistency is Consistency.EXACT
    assert found.base.captured_at <= found.reached <= moment
    assert found.lost_seconds == (moment - found.reached) / 1000 >= 0
    if found.reached > found.base.captured_at:
        assert found.way is Way.MOMENT
        assert found.base.moments is not None
        assert found.base.moments.since is not None
        assert found.base.moments.since <= found.reached
        same = [one.captured_at for one in status.savepoints if one.moments and one.moments.history == found.base.moments.history]
        assert found.reached <= max(same)


@given(status=statuses(), moment=MOMENTS, later=st.integers(0, 10 * HOUR))
def test_a_later_instant_never_brings_back_less(status: StatusReport, moment: int, later: int) -> None:
    # Full savepoints go before minimal ones, so only among those of one profile later means more.
    savepoints = tuple(replace(one, moments=None) for one in status.savepoints if one.profile is Profile.FULL)
    status = replace(status, savepoints=savepoints)
    first, second = instant(status, moment), instant(status, moment + later)
    assert (second.reached or 0) >= (first.reached or 0)


@given(status=statuses(), moment=MOMENTS)
def test_one_more_exact_savepoint_never_loses_more(status: StatusReport, moment: int) -> None:
    more = replace(status, savepoints=(*status.savepoints, summary(99, at=moment)))
    found = instant(more, moment)
    assert found.reached == moment
    assert found.lost == ()


@given(status=statuses(), moment=MOMENTS)
def test_amounts_are_of_the_inputs_and_never_negative(status: StatusReport, moment: int) -> None:
    found = instant(status, moment)
    for amounts in (found.replayed, found.lost, found.again):
        assert [amount.topic for amount in amounts] in ([], ["orders", "inventory"])
        assert all(amount.records is None or amount.records >= 0 for amount in amounts)
    assert not (found.replayed and found.again), "archived input is replayed to the instant, or the application reads on: not both"
    if found.needed is not None:
        assert found.needed.seconds >= 0


def found_at(moment: int, **changed: object) -> Instant:
    return instant(replace(report(), **changed), moment)  # type: ignore[arg-type]


def test_between_two_savepoints_archived_input_is_replayed_in_proportion() -> None:
    found = found_at(NOW - HOUR - HOUR // 4)
    assert (found.way, found.reached) == (Way.MOMENT, NOW - HOUR - HOUR // 4)
    assert found.base == summary(2)
    assert found.replayed == (InputAmount(topic="orders", records=45_000), InputAmount(topic="inventory", records=30))
    assert (found.lost, found.again, found.blockers) == ((), (), ())
    assert found.needed is not None
    assert not found.needed.without_input


def test_without_archived_input_the_savepoint_comes_back_and_what_follows_is_read_again() -> None:
    found = found_at(NOW - HOUR // 2, savepoints=tuple(replace(one, moments=None) for one in report().savepoints))
    assert (found.way, found.base and found.base.savepoint_id, found.lost_seconds) == (Way.SAVEPOINT, summary(1).savepoint_id, 1_800.0)
    assert found.lost == (InputAmount(topic="orders", records=30_000), InputAmount(topic="inventory", records=20))
    assert found.again[0] == InputAmount(topic="orders", records=60_667), "up to the status, at the rate of the last hour"


def test_what_is_archived_behind_the_newest_savepoint_is_not_lost_and_behind_another_one_it_is() -> None:
    status = report()
    assert status.newest_exact is not None
    asked, captured = status.taken_at, status.newest_exact.captured_at
    behind = ArchiveStatus(working=True, said_at=asked, safe_at=asked - 9_000, waiting=0, files=1)
    assert (instant(status, asked).kept, instant(status, asked).lost_seconds) == (None, (asked - captured) / 1000)
    found = instant(replace(status, archive=behind), asked)
    assert (found.kept, found.lost_seconds) == (asked - 9_000, 9.0)
    between = instant(replace(status, archive=behind), asked - 20_000)
    assert (between.kept, between.lost_seconds) == (asked - 20_000, 0.0)
    assert instant(replace(status, archive=behind), captured - HOUR // 2).kept is None
    assert instant(replace(status, archive=replace(behind, safe_at=None)), asked).kept is None


@pytest.mark.parametrize(
    ("changed", "way", "base"),
    [
        ({}, Way.MOMENT, 1),
        ({1: Moments(history="first", since=None)}, Way.MOMENT, 2),
        ({1: Moments(history="first", since=NOW - HOUR // 4)}, Way.MOMENT, 2),
        ({0: Moments(history="anew", since=NOW)}, Way.SAVEPOINT, 1),
        ({0: Moments(history=None, since=None)}, Way.SAVEPOINT, 1),
        ({0: None}, Way.SAVEPOINT, 1),
        ({1: Moments(history="anew", since=NOW - HOUR)}, Way.MOMENT, 2),
    ],
)
def test_an_instant_is_reached_from_a_savepoint_whose_archive_goes_on_up_to_it(
    changed: dict[int, Moments | None], way: Way, base: int
) -> None:
    known = tuple(replace(summary(number), moments=changed.get(number, summary(number).moments)) for number in (3, 2, 1, 0))
    found = found_at(NOW - HOUR // 2, savepoints=known)
    assert (found.way, found.base and found.base.savepoint_id) == (way, summary(base).savepoint_id)
    assert any("without a break" in warning for warning in found.warnings) == (way is Way.SAVEPOINT)


def test_a_savepoint_of_a_time_that_has_not_come_promises_nothing() -> None:
    known = (summary(1), replace(summary(0), captured_at=NOW + 9 * HOUR))
    assert found_at(NOW - HOUR // 2, savepoints=known).way is Way.SAVEPOINT


def test_the_newest_savepoint_takes_as_long_as_the_status_says() -> None:
    found = found_at(NOW + 1_000)
    assert found.needed is not None
    assert (round(found.needed.seconds, 1), found.needed.measured, found.needed.without_input) == (192.5, 3, False)


def test_unknown_positions_are_said_to_be_unknown() -> None:
    known = tuple(replace(one, input_positions=None) for one in report().savepoints)
    found = found_at(NOW - HOUR // 2, savepoints=known)
    assert found.replayed == (InputAmount(topic="orders", records=None), InputAmount(topic="inventory", records=None))
    assert found.needed is not None
    assert found.needed.without_input


RUNNING = RunSummary(
    kind=RunKind.RESTORE,
    run="manual__1",
    restore_id=None,
    savepoint_id=None,
    began_at=NOW,
    ended_at=None,
    succeeded=None,
    outcome="",
    rpo_seconds=None,
    rto_seconds=None,
    running=True,
)


@pytest.mark.parametrize(
    ("moment", "changed", "blocker"),
    [
        (NOW, {"savepoints": ()}, "There is no savepoint."),
        (NOW - 60 * HOUR, {}, "All savepoints are later than this instant."),
        (NOW + HOUR, {}, "This instant has not come yet."),
        (NOW, {"runs": (RUNNING,)}, "A restore is running: manual__1. The lock of the application keeps a second one out."),
        (
            NOW,
            {"savepoints": (summary(0, consistency=Consistency.AHEAD),)},
            "No savepoint up to this instant is exact. Others are restored by their id, with allow_ahead or allow_damaged.",
        ),
    ],
)
def test_what_stands_in_the_way_is_named(moment: int, changed: dict[str, object], blocker: str) -> None:
    assert found_at(moment, **changed).blockers == (blocker,)


def test_a_restore_that_failed_half_way_leaves_the_lock_free_and_the_plan_possible() -> None:
    left = replace(RUNNING, running=False, succeeded=False, outcome="failed after destroying")
    assert (left.unfinished, left.failed, RUNNING.unfinished, RUNNING.failed) == (True, True, False, False)
    assert found_at(NOW, runs=(left,)).blockers == ()


def test_a_moment_behind_an_old_status_has_come_all_the_same() -> None:
    assert instant(report(), NOW + HOUR, now=NOW + HOUR).blockers == ()


def test_what_is_weak_about_the_base_is_named() -> None:
    weak = replace(summary(1), expires=True, survives_cluster_loss=False)
    status = replace(report(), savepoints=(weak, summary(0, consistency=Consistency.AHEAD)))
    warnings = instant(status, NOW).warnings
    assert (
        warnings
        == (
            "1 newer savepoint is not exact and is passed over.",
            "The savepoint expires with the next run of the retention. Pin it to keep it.",
            "The savepoint alone is not enough when the whole cluster is lost.",
            "47 older savepoints are not in this status. `streams-recovery savepoints list` has all of them.",
        )[:3]
    )


def test_older_savepoints_that_the_status_does_not_have_are_mentioned() -> None:
    status = replace(report(), savepoint_count=400)
    assert (
        "352 older savepoints are not in this status"
        in instant(replace(status, savepoints=status.savepoints), NOW - 60 * HOUR).blockers[-1]
    )


def test_a_minimal_savepoint_means_a_rebuild() -> None:
    status = replace(report(), savepoints=(summary(1, profile=Profile.MINIMAL),))
    found = instant(status, NOW)
    assert (found.way, found.needed) == (Way.REBUILD, None)
    assert "State is built again from the input." in found.warnings[0]


def test_what_a_rescale_has_made_is_no_base_and_not_the_newest() -> None:
    taken, made = summary(1, at=NOW - 2 * HOUR), replace(summary(2, at=NOW - HOUR), rescaled=True)
    assert newest_exact([taken, made]) == taken
    assert instant(replace(report(), savepoints=(taken, made), newest=made, newest_exact=taken), NOW).base == taken
