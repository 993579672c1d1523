"""However many want to, no more intervals than there are slots are processed at once, and never two in one slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.sandbox.slots import SlotEntry, busy, release, take

NAMES = st.sampled_from("abcde")
STEPS = st.lists(st.tuples(st.booleans(), NAMES, st.integers(1, 3)), max_size=40)


@given(steps=STEPS, slots=st.integers(1, 3))
def test_slots_are_never_shared_and_never_more_than_there_are(steps: list[tuple[bool, str, int]], slots: int) -> None:
    last: SlotEntry | None = None
    working: dict[str, tuple[int, str]] = {}
    for taking, name, number in steps:
        run = f"run-{number}"
        if taking:
            last = take(last, name, run=run, at=0, slots=slots)
            assert (last.slot is None) == (name not in working and len(working) == slots)
            if name in working:
                assert last.slot == working[name][0], "the same interval again keeps its slot"
            if last.slot is not None:
                working[name] = (last.slot, run)
        else:
            given_back = release(last, name, run=run, at=0)
            assert (given_back is not None) == (name in working and working[name][1] == run), "only by the run that took it"
            if given_back is not None:
                last = given_back
                del working[name]
        found = {} if last is None else {interval: (taken.slot, taken.run) for interval, taken in last.taken.items()}
        assert found == working
        assert busy(last) == tuple(sorted(working))
        used = [slot for slot, _ in working.values()]
        assert len(set(used)) == len(used) <= slots
        assert all(0 <= slot < slots for slot in used)


def test_what_is_removed_gives_back_whoever_took_it() -> None:
    last = take(None, "a", run="one", at=0, slots=1)
    assert release(last, "a", run="two", at=0) is None
    free = release(last, "a", run=None, at=0)
    assert free is not None
    assert (free.taken, take(free, "b", run="two", at=0, slots=1).slot) == ({}, 0)


def test_with_fewer_slots_than_before_an_interval_moves_to_one_that_there_is() -> None:
    last = take(take(None, "a", run="one", at=0, slots=2), "b", run="two", at=0, slots=2)
    refused = take(last, "b", run="three", at=0, slots=1)
    assert (refused.slot, refused.taken) == (None, last.taken)
    free = release(last, "a", run="one", at=0)
    assert take(free, "b", run="three", at=0, slots=1).slot == 0
