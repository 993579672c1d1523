"""How long a restore is said to take, held against what restores took."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.restore.estimate import STEPS, Sizes, Timed, by_default, estimate, recovery_seconds, seconds_of
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.waiting import RateLimits

FREE = RateLimits(records_per_second=None, bytes_per_second=None)
SMALL = Sizes(records=9_541, payload_bytes=468_497, partitions=64, replaced=19_517, to_catch_up=0)
UNDONE = Sizes(records=18_885, payload_bytes=933_107, partitions=64, replaced=9_541, to_catch_up=0)
DEMO = Sizes(records=1_501_709, payload_bytes=63_439_834, partitions=64, replaced=0, to_catch_up=58_425)


def measured(save: float, create: float, load: float, compare: float, start: float, catch_up: float) -> dict[str, float]:
    return dict(zip(STEPS, (save, create, load, compare, start, catch_up), strict=True))


# By the journals of the restores of a demonstration, through Airflow on two cores, in seconds.
REPORTS = [
    (SMALL, measured(21.2, 3.8, 18.1, 17.5, 3.4, 11.5)),
    (UNDONE, measured(21.1, 3.8, 15.9, 18.7, 3.4, 11.0)),
    (DEMO, measured(5.4, 4.3, 21.8, 45.5, 4.7, 42.0)),
]
sizes = st.builds(
    Sizes,
    records=st.integers(0, 10**9),
    payload_bytes=st.integers(0, 10**12),
    partitions=st.integers(0, 10_000),
    replaced=st.integers(0, 10**9),
    to_catch_up=st.integers(0, 10**9),
)
seconds = st.fixed_dictionaries({step: st.floats(0.2, 10_000) for step in STEPS})


@pytest.mark.parametrize(("moved", "took"), REPORTS)
def test_what_restores_took_is_within_twice_the_default_estimate(moved: Sizes, took: dict[str, float]) -> None:
    assert 0.5 < estimate(moved, [], FREE).total / sum(took.values()) < 2


@pytest.mark.parametrize("number", range(1, len(REPORTS)))
def test_and_of_the_estimate_by_all_restores_before_it(number: int) -> None:
    moved, took = REPORTS[number]
    expected = estimate(moved, [Timed(sizes=size, seconds=seconds) for size, seconds in REPORTS[:number]], FREE)
    assert expected.measured == min(number, 5)
    assert 0.5 < expected.total / sum(took.values()) < 2


def test_a_drill_tells_what_a_restore_on_the_same_crowded_machine_takes() -> None:
    """From a terminal, with ten times the work that two cores can do: the default rates are far off, and the drill before it is not."""
    moved = Sizes(records=35_702, payload_bytes=1_402_233, partitions=64, replaced=0, to_catch_up=300)
    drill = Timed(sizes=replace(moved, partitions=76), seconds=measured(0.9, 6.0, 156.9, 260.3, 0.8, 79.4))
    took = sum(measured(1.1, 4.4, 76.6, 139.2, 0.8, 32.0).values())
    assert estimate(moved, [], FREE).total / took < 0.5
    assert 0.5 < estimate(moved, [drill], FREE).total / took < 2


@given(sizes, seconds)
def test_the_same_restore_again_takes_as_long_as_it_took(moved: Sizes, took: dict[str, float]) -> None:
    again = estimate(moved, [Timed(sizes=moved, seconds=took)], FREE)
    assert again.seconds == {step: pytest.approx(value, abs=0.06, rel=1e-6) for step, value in took.items()}


@given(sizes, sizes, st.lists(st.builds(Timed, sizes=sizes, seconds=seconds), max_size=8))
def test_more_to_move_never_takes_less_time(one: Sizes, more: Sizes, earlier: list[Timed]) -> None:
    both = Sizes(
        **{name: getattr(one, name) + getattr(more, name) for name in ("records", "payload_bytes", "partitions", "replaced", "to_catch_up")}
    )
    less, greater = estimate(one, earlier, FREE).seconds, estimate(both, earlier, FREE).seconds
    assert all(greater[step] >= less[step] for step in STEPS)


def test_one_restore_that_was_held_up_among_three_changes_nothing_much() -> None:
    usual = Timed(sizes=DEMO, seconds=by_default(DEMO))
    held_up = Timed(sizes=DEMO, seconds={step: value * 50 for step, value in by_default(DEMO).items()})
    assert estimate(DEMO, [usual, held_up, usual], FREE).total == pytest.approx(estimate(DEMO, [], FREE).total)


def test_a_throttle_bounds_the_load_from_below() -> None:
    slow = RateLimits(records_per_second=10_000, bytes_per_second=None)
    assert estimate(DEMO, [], slow).seconds["load"] == pytest.approx(150.2)
    slower = RateLimits(records_per_second=10_000, bytes_per_second=100_000)
    assert estimate(DEMO, [], slower).seconds["load"] == pytest.approx(634.4)
    assert estimate(DEMO, [], RateLimits(records_per_second=10**9, bytes_per_second=10**12)) == estimate(DEMO, [], FREE)


def journal(*phases: tuple[Phase, int]) -> tuple[JournalEntry, ...]:
    return tuple(JournalEntry(phase=phase, at=at, created=()) for phase, at in phases)


def test_a_restore_has_recovered_after_all_of_its_time_and_not_only_after_the_last_wait() -> None:
    whole = journal(*((phase, phase.rank * 1_000) for phase in list(Phase)[1:]))
    assert recovery_seconds(whole, began_at=-500) == Phase.RECOVERED.rank + 0.5
    took = seconds_of(whole, began_at=-500)
    assert took is not None
    assert recovery_seconds(whole, began_at=-500) == sum(took.values()), "as the log of restores has it"
    again = (*whole[:2], *whole, *journal((Phase.RECOVERED, 90_000)))
    assert recovery_seconds(again, began_at=-500) == Phase.RECOVERED.rank + 0.5
    assert recovery_seconds(whole[: Phase.RECOVERED.rank - 1], began_at=0) is None


def test_the_steps_of_a_restore_are_in_its_journal() -> None:
    whole = journal(*((phase, phase.rank * 1_000) for phase in list(Phase)[1:]))
    assert seconds_of(whole, began_at=-500) == {"save": 2.5, "create": 2, "load": 1, "compare": 1, "start": 4, "catch up": 1}
    # Behind the state of the stop the records of a rescale were placed anew for a while: the next restore has nothing of that.
    saved = next(one for one in whole if one.phase is Phase.SAVED)
    noted = replace(saved, at=saved.at + 1_500, result=ArtifactRef(key="placed-plan", sha256="0" * 64))
    at = whole.index(saved) + 1
    assert seconds_of((*whole[:at], noted, *whole[at:]), began_at=-500) == {**(seconds_of(whole, began_at=-500) or {}), "create": 0.5}
    broken_off = whole[: Phase.RECOVERED.rank - 1]
    assert seconds_of(broken_off, began_at=0) is None, "one that did not recover is no measure"
    # A topic that was created again on the way is written down with a phase that was reached before.
    assert seconds_of((*whole[:5], *journal((Phase.CREATED, 5_500)), *whole[5:]), began_at=0) == seconds_of(whole, began_at=0)
    assert seconds_of(journal(*((phase, -phase.rank) for phase in Phase)), began_at=0) is None
