"""No cut called exact has a transaction in part, whatever happens while it is read, in a cluster that is simulated (transaction_model.py)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import Consistency, Guarantee, QuiesceMode
from streams_recovery.core.savepoint.cut import CutEvidence, Readings, judge, read_cut
from tests.support.kafka.transaction_model import INTERNAL, OUTPUT, World, some_producers

Rule = Callable[[Readings], Readings]
LENGTH = 120
WEAKER: dict[str, Rule] = {
    "later readings agree with each other, not with the ends": lambda read: replace(read, ends=read.ends_after),
    "the ends are not read again": lambda read: replace(read, ends_after=read.ends),
    "committed offsets are not read again": lambda read: replace(read, committed_after=read.committed_before),
}


def wrong(chances: bytes, weaker: Rule = lambda read: read) -> list[str]:
    """What is wrong with a cut that is called exact. Empty for any other: nothing is promised of it. ``chances`` decide what happens and when, and
    ``weaker`` takes from what the cut is judged by.
    """
    left = iter(chances)

    def choose(last: int) -> int:
        return next(left, 0) % (last + 1)

    world = World(some_producers(choose), choose)
    readings = read_cut(world, INTERNAL)
    evidence = CutEvidence(
        mode=QuiesceMode.LIVE,
        guarantee=Guarantee.EXACTLY_ONCE_V2,
        readings=weaker(readings),
        held=False,
        why_not_held="the application was not held",
        writers_transactional=True,
    )
    if judge(evidence)[0] is not Consistency.EXACT:
        return []
    return world.wrong({**readings.ends, **world.high_watermarks([OUTPUT])}, readings.committed_before)


@pytest.mark.fault("F41")
@pytest.mark.parametrize("examples", [1_000, pytest.param(100_000, marks=pytest.mark.deep)])
def test_a_cut_called_exact_has_whole_transactions_only(examples: int) -> None:
    @settings(max_examples=examples)
    @given(chances=st.binary(max_size=LENGTH))
    def try_many(chances: bytes) -> None:
        assert wrong(chances) == []

    try_many()


@pytest.mark.parametrize("rule", WEAKER)
def test_each_part_of_the_rule_is_needed(rule: str) -> None:
    """A weaker one calls torn cuts exact; so the simulation does tear them."""
    dice = random.Random(20261122)
    assert any(wrong(dice.randbytes(LENGTH), WEAKER[rule]) for _ in range(20_000))
