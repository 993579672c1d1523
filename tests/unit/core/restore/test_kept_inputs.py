"""Inputs that a restore in place relies on: the same records as at the savepoint, and what compaction may have taken of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition, truncation
from streams_recovery.core.offsets.strategies import EXACT, STRATEGIES, parse
from streams_recovery.core.restore.kept_inputs import KeptInput, check_same_records, outgrown_tables
from tests.support.examples.savepoints import committed, image

TP = TopicPartition("orders", 0)
# At the savepoint: ten records, written under leader epochs up to 3, of which five were read.
KEPT = KeptInput(tp=TP, image=replace(image((), epoch=3), committed=committed(5)), leader_epoch=4, epoch_end=10, end=30, compacted=False)


@pytest.mark.fault("F36")
@given(
    history=st.lists(st.tuples(st.integers(1, 10), st.integers(0, 10)), min_size=1, max_size=5),
    seen_at=st.integers(0, 4),
    back=st.integers(0, 10),
)
def test_other_records_are_seen_wherever_the_log_ends(history: list[tuple[int, int]], seen_at: int, back: int) -> None:
    """Each step: a new leader that lost some records of the end, and what is written under it. The broker's answer is worked out from the log itself."""
    log: list[tuple[int, int]] = []  # (leader epoch, number of the write)
    seen: list[tuple[int, int]] = []
    seen_epoch, writes = 0, 0
    for epoch, (written, lost) in enumerate(history):
        log = log[: max(0, len(log) - lost)] + [(epoch, writes + number) for number in range(written)]
        writes += written
        if epoch == min(seen_at, len(history) - 1):
            seen, seen_epoch = list(log), epoch
    upto = max(0, len(seen) - back)
    epoch_end = sum(1 for written_under, _ in log if written_under <= seen_epoch)
    found = truncation(seen=seen_epoch, upto=upto, now=len(history) - 1, epoch_end=epoch_end)
    assert (found is None) == (log[:upto] == seen[:upto])


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (replace(KEPT, epoch_end=4), "orders-0: its records of leader epoch 3 end at 4, before offset 5"),
        (replace(KEPT, leader_epoch=2), "orders-0: its leader epoch went back from 3 to 2"),
    ],
)
def test_offsets_among_other_records_are_refused_unless_they_come_from_the_log(changed: KeptInput, why: str) -> None:
    for strategy in STRATEGIES:
        wanted = parse(strategy.FORM, group="", read=lambda _: b"orders,0,4\n")
        if strategy.FROM_LOG:
            (told,) = check_same_records([changed], wanted)
            assert why in told
        else:
            with pytest.raises(Refused, match=rf"{why}.*\(earliest, latest, timestamp:\.\.\., "):
                check_same_records([changed], wanted)


@pytest.mark.parametrize(
    "same",
    [
        KEPT,
        replace(KEPT, epoch_end=5),
        replace(KEPT, epoch_end=None),
        replace(KEPT, leader_epoch=None),
        replace(KEPT, image=replace(KEPT.image, leader_epoch=None), epoch_end=0, leader_epoch=0),
        replace(KEPT, image=replace(KEPT.image, committed=None), epoch_end=0),
    ],
)
def test_an_input_of_which_nothing_that_was_read_is_lost_passes(same: KeptInput) -> None:
    assert check_same_records([same], EXACT) == ()


@pytest.mark.fault("F48")
def test_a_compacted_input_that_went_on_is_told_with_its_stores() -> None:
    table = replace(KEPT, compacted=True)
    (told,) = outgrown_tables([table, replace(table, tp=TopicPartition("orders", 1), end=6)], {"orders": ["latest", "first"]})
    assert "orders is compacted and has changed since the savepoint (orders-0 offsets 5 to 29, orders-1 offsets 5 to 5)" in told
    assert "Store first, latest, which Kafka Streams restores from this topic, lacks such a key" in told
    (guessed,) = outgrown_tables([table], {})
    assert "A table that Kafka Streams restores from this topic (topology.optimization) in place of a changelog lacks" in guessed


def test_an_input_that_compaction_took_nothing_of_is_not_told() -> None:
    table = replace(KEPT, compacted=True)
    unread = replace(table, image=replace(table.image, committed=None))
    assert outgrown_tables([KEPT, replace(table, end=5), unread], {}) == ()
