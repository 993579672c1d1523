"""What is left out of the unread records of a cut by names: no more and no less than its batches say, in a cluster that is simulated."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from streams_recovery.core.errors import OffsetsUnstable
from streams_recovery.core.named_transactions.cut import LookAgain, cut_at_names
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut
from streams_recovery.core.named_transactions.readings import read_named
from streams_recovery.kafka.range_copy import WithoutExcluded
from tests.support.kafka.named_transactions_model import BETWEEN, CHANGELOGS, WRITTEN, World


def out(first: int, last: int) -> Excluded:
    return Excluded(producer_id=1, epoch=0, first=first, last=last, records=last - first + 1, aborted=False)


def batches(*several: Iterable[int]) -> Iterator[pa.RecordBatch]:
    return (pa.record_batch([pa.array(list(one), pa.int64())], ["offset"]) for one in several)


def offsets(found: Iterable[pa.RecordBatch]) -> list[list[int]]:
    return [batch.column("offset").to_pylist() for batch in found]


def test_records_of_other_transactions_are_left_out_and_all_are_counted_from_where_the_look_began() -> None:
    counted = WithoutExcluded(NamedLogCut(start=4, end=12, records=4, excluded=(out(5, 6), out(8, 9))))
    assert offsets(counted(batches([2, 3, 4], [5, 6], [7, 8, 9, 10, 11]))) == [[2, 3, 4], [7, 10, 11]]
    assert (counted.kept, counted.left_out) == (4, 4)
    counted.check(BETWEEN[0])
    for more in ({"kept": 5}, {"left_out": 3}):
        with pytest.raises(LookAgain, match="4 records of the cut and 4 others by their names"):
            replace(counted, **more).check(BETWEEN[0])


def test_batches_with_nothing_to_leave_out_are_handed_on_as_they_are() -> None:
    (batch,) = batches([3, 4, 9])
    assert list(WithoutExcluded(NamedLogCut(start=0, end=10, records=3, excluded=(out(5, 8),)))(iter([batch]))) == [batch]


def test_a_consumer_is_given_what_the_batches_have_and_the_cut_is_what_is_left_of_it() -> None:
    left_out = 0
    for seed in range(400):
        dice = random.Random(seed)
        world = World(dice)
        for _ in range(dice.randrange(250)):
            world.step()
        try:
            cut = cut_at_names(read_named(world, WRITTEN, patience=30, interval=0), CHANGELOGS, WRITTEN[-1:])
        except OffsetsUnstable:
            continue
        for tp in BETWEEN:
            log, start = cut.logs[tp], cut.committed[tp].offset if tp in cut.committed else 0
            given = [at for at, one in sorted(world.logs[tp].items()) if one.what == "record" and one.run is not None and one.run.committed]
            counted = WithoutExcluded(log)
            kept = offsets(counted(batches([at for at in given if start <= at < log.end])))
            assert [at for one in kept for at in one] == [at for at, _ in world._kept(cut, tp) if at >= start]
            assert (counted.kept, counted.left_out) == (log.records, log.left_out)
            left_out += log.left_out
    assert left_out > 10
