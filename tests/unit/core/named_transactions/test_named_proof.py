"""A cut by names is proven again by the batches of its logs, as long as nothing was removed from them."""

from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.proof import Excluded, NamedLogCut, NamedProof
from streams_recovery.core.named_transactions.readings import Name, NamedBatch

TP = TopicPartition("app-key-repartition", 0)
PROOF = NamedProof(
    group=TopicPartition("__consumer_offsets", 3),
    group_end=90,
    last=(Name(1, 5), Name(2, 8)),
    taken_back=(),
    logs={
        TP: NamedLogCut(
            start=10,
            end=20,
            records=5,
            excluded=(
                Excluded(producer_id=1, epoch=6, first=13, last=15, records=3, aborted=False),
                Excluded(producer_id=2, epoch=8, first=17, last=17, records=1, aborted=True),
            ),
        )
    },
)


def batch(base: int, last: int, producer: int, epoch: int, *, marker: bool | None = None, records: int | None = None) -> NamedBatch:
    count = last - base + 1 if records is None else records
    return NamedBatch(base, last, producer, epoch, transactional=True, marker=marker, records=count)


# The first one begins before the look, and the last one behind the cut.
WHOLE = [
    batch(8, 11, 2, 7),
    batch(12, 12, 2, 8, marker=True),
    batch(13, 15, 1, 6),
    batch(16, 16, 2, 8),
    batch(17, 17, 2, 8),
    batch(18, 19, 1, 5),
    batch(20, 21, 3, 0),
]


def changed(at: int, other: NamedBatch) -> list[NamedBatch]:
    return [*WHOLE[:at], other, *WHOLE[at + 1 :]]


def test_the_same_batches_prove_it_again() -> None:
    assert PROOF.differs(TP, WHOLE) == ""


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        (changed(3, batch(16, 16, 2, 9)), "offset 16 is of transaction 9 of producer 2"),
        (changed(5, batch(18, 19, 3, 0)), "offset 18 is of transaction 0 of producer 3"),
        (changed(2, batch(13, 15, 1, 5)), "offset 13 is of transaction 5 of producer 1"),
        (changed(4, batch(17, 17, 2, 7)), "offset 17 is of transaction 7 of producer 2"),
        (changed(3, batch(16, 16, 2, 8, marker=True)), "it has 4 records of the cut, and 4 others"),
    ],
)
def test_others_contradict_it(batches: list[NamedBatch], said: str) -> None:
    assert PROOF.differs(TP, batches) == said


@pytest.mark.parametrize(
    "batches",
    [[], WHOLE[1:], WHOLE[:-2], [*WHOLE[:3], *WHOLE[4:]], changed(0, batch(8, 11, 2, 7, records=3))],
)
def test_nobody_can_tell_once_something_was_removed(batches: list[NamedBatch]) -> None:
    assert PROOF.differs(TP, batches) is None
