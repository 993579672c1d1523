"""History stays small however long it lasts, and keeps its shape."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.status.history import MOST, TIERS, thinned
from streams_recovery.core.status.report import HistoryPoint

NOW = 1_795_219_200_000


def point(at: int) -> HistoryPoint:
    return HistoryPoint(at=at, changelog_bytes=at, state_bytes=None, repository_bytes=None, lag=None, newest_age_seconds=None)


moments = st.lists(st.integers(min_value=NOW - 2 * TIERS[-1][0], max_value=NOW), max_size=300)


@settings(deadline=None)
@given(moments=moments)
def test_it_is_a_selection_in_order_and_has_the_newest(moments: list[int]) -> None:
    points = [point(at) for at in moments]
    kept = thinned(points, now=NOW)
    assert list(kept) == sorted({one.at: one for one in kept}.values(), key=lambda one: one.at)
    assert {one.at for one in kept} <= {*moments}
    assert not moments or kept[-1].at == max(moments)
    assert thinned(kept, now=NOW) == kept


def test_a_look_every_five_minutes_for_two_years_stays_bounded_and_keeps_each_day() -> None:
    kept: tuple[HistoryPoint, ...] = ()
    day = 86_400_000
    begin = NOW - 400 * day
    # Every six hours for most of the time: what matters is the bound, and that thinning again and again loses no tier.
    for at in [*range(begin, NOW - 2 * day, 6 * 3_600_000), *range(NOW - 2 * day, NOW + 1, 300_000)]:
        kept = thinned((*kept, point(at)), now=at)
        assert len(kept) <= MOST
    days = {one.at // day for one in kept}
    assert len(days) >= 366
    newest = [one for one in kept if NOW - one.at <= TIERS[0][0]]
    assert len(newest) >= TIERS[0][0] // TIERS[0][1]


def test_points_of_a_time_that_has_not_come_go() -> None:
    assert thinned([point(NOW), point(NOW + 1)], now=NOW) == (point(NOW),)


def test_any_number_of_points_is_brought_below_the_bound() -> None:
    assert len(thinned([point(NOW - number * 60_000) for number in range(60_000)], now=NOW)) <= MOST
