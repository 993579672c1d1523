"""Each cut is the state of an application that has processed its committed offsets and nothing else, in a cluster that is simulated
(named_transactions_model.py). A weaker rule, or another order of the readings, makes cuts that are not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.errors import OffsetsUnstable, RecoveryError
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.cut import (
    EpochsStay,
    NamedCut,
    NothingCommitted,
    OffsetsByHand,
    OutsideTransactions,
    RecordsRemoved,
    cut_at_names,
)
from streams_recovery.core.named_transactions.proof import NamedLogCut
from streams_recovery.core.named_transactions.readings import GroupRecord, NamedBatch, NamedReadings, read_named
from tests.support.kafka.named_transactions_model import BETWEEN, CHANGELOGS, GROUP, INPUTS, LEFT, OUTPUT, WRITTEN, Entry, Run, World

Weaker = Callable[[NamedReadings], NamedReadings]


class Hasty(World):
    """Where the logs begin is not waited for."""

    asked = 0

    def await_decided(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked += 1
        return super().await_decided(ends) if self.asked > 1 else self.last_stable_offsets(tuple(ends))


class KnownLate(World):
    """The committed offsets are read last."""

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        self.known: dict[TopicPartition, CommittedOffset] = getattr(self, "known", {})
        return self.known

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.known |= super().committed()
        return super().log_starts(partitions)


def below_end(read: NamedReadings) -> NamedReadings:
    return replace(read, later={}, group=tuple(record for record in read.group if record.at < read.end))


def from_settled(read: NamedReadings) -> NamedReadings:
    return replace(read, later={}, group=tuple(record for record in read.group if record.at >= read.settled))


def never_deleted(read: NamedReadings) -> NamedReadings:
    return replace(read, logs={tp: replace(tail, first=0) for tp, tail in read.logs.items()})


def all_decided(read: NamedReadings) -> NamedReadings:
    return replace(read, logs={tp: replace(tail, before=10**9, after=10**9) for tp, tail in read.logs.items()})


WEAKER: dict[str, Weaker] = {
    "the end is read last": lambda read: replace(read, end=10**9),
    "the group is read to the end only": below_end,
    "the group is read from the middle": from_settled,
    "nobody asks whether unread records are there": never_deleted,
    "every transaction without offsets is in the cut": all_decided,
}
# A group that has committed nothing has no place from where it would go on.
NO_CUT = (OffsetsUnstable, NothingCommitted)
OTHERWISE: dict[str, type[World]] = {"the beginning is not waited for": Hasty, "committed offsets are read last": KnownLate}


def world_of(seed: int, kind: type[World] = World) -> World:
    dice = random.Random(seed)
    world = kind(dice, first_epoch=dice.choice([0, 0, 32_760]))
    for _ in range(dice.randrange(250)):
        world.step()
    return world


def look(world: World, weaker: Weaker = lambda read: read, logs: Collection[TopicPartition] = WRITTEN) -> NamedCut:
    return cut_at_names(weaker(read_named(world, logs, patience=30, interval=0)), CHANGELOGS, [OUTPUT])


def wrong(
    seed: int, kind: type[World] = World, weaker: Weaker = lambda read: read, logs: Collection[TopicPartition] = WRITTEN
) -> list[str]:
    """What is wrong with the cut. Empty where the readings prove none."""
    world = world_of(seed, kind)
    try:
        found = look(world, weaker, logs)
    except NO_CUT:
        return []
    return world.wrong(found)


@pytest.mark.parametrize("logs", [WRITTEN, (*CHANGELOGS, *BETWEEN)], ids=["with outputs", "without outputs"])
@pytest.mark.parametrize("examples", [200, pytest.param(20_000, marks=[pytest.mark.deep, pytest.mark.timeout(3600)])])
def test_each_cut_is_a_state_that_the_application_had(examples: int, logs: tuple[TopicPartition, ...]) -> None:
    """Its outputs need not be looked at for that."""

    @settings(max_examples=examples, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def try_many(seed: int) -> None:
        assert wrong(seed, logs=logs) == []

    try_many()


def test_what_was_read_and_deleted_since_the_look_began_may_not_be_in_the_cut() -> None:
    """Found by trying 20,000 of these worlds: the record of a transaction that is left out was read and deleted before its batch was looked at."""
    assert wrong(176_089_981) == []


def test_no_committed_record_is_left_out_of_a_changelog_below_its_end() -> None:
    """So a savepoint by names shares the files of its changelogs like any other."""
    left = between = 0
    for seed in range(300):
        try:
            found = look(world_of(seed))
        except NO_CUT:
            continue
        left += sum(found.logs[tp].left_out for tp in CHANGELOGS)
        between += sum(found.logs[tp].left_out for tp in BETWEEN)
    assert left == 0
    assert between > 0


def test_most_looks_find_a_cut_and_some_of_them_leave_something_out() -> None:
    found = []
    for seed in range(100):
        try:
            found.append(look(world_of(seed)))
        except NO_CUT:
            continue
    assert len(found) > 50
    assert sum(any(log.excluded for log in one.logs.values()) for one in found) > 5
    assert (
        sum(any(log != NamedLogCut(start=log.start, end=log.start, records=0, excluded=()) for log in one.logs.values()) for one in found)
        > 40
    )


@pytest.mark.parametrize("rule", WEAKER)
def test_each_part_of_the_rule_is_needed(rule: str) -> None:
    assert any(wrong(seed, weaker=WEAKER[rule]) for seed in range(3_000))


@pytest.mark.parametrize("order", OTHERWISE)
def test_the_order_of_the_readings_is_needed(order: str) -> None:
    assert any(wrong(seed, OTHERWISE[order]) for seed in range(3_000))


class Noted(World):
    """Notes what is asked, and of how many partitions."""

    def __init__(self, dice: random.Random) -> None:
        self.asked: list[tuple[str, int]] = []
        super().__init__(dice)

    def clock(self) -> int:
        self.asked.append(("time", 0))
        return super().clock()

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(("end", len(partitions)))
        return super().high_watermarks(partitions)

    def last_stable_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(("stable", len(partitions)))
        return super().last_stable_offsets(partitions)

    def await_decided(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append(("decided", len(ends)))
        return dict(ends)

    def committed(self) -> dict[TopicPartition, CommittedOffset]:
        self.asked.append(("committed", 0))
        return super().committed()

    def batches(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, tuple[NamedBatch, ...]]:
        self.asked.append(("batches", len(ranges)))
        return super().batches(ranges)

    def log_starts(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(("start", len(partitions)))
        return super().log_starts(partitions)

    def group_records(self, start: int, end: int) -> tuple[GroupRecord, ...]:
        self.asked.append(("group", min(0, end - start)))
        return ()


def test_the_readings_are_in_the_order_in_which_they_prove_something() -> None:
    """An order that is wrong in a few looks of a million is not found by trying."""
    world, logs = Noted(random.Random(1)), len(WRITTEN)
    read_named(world, WRITTEN, patience=1, interval=0)
    begin = [("stable", 1), ("stable", logs), ("end", logs), ("decided", logs), ("end", 1), ("committed", 0), ("end", 1), ("group", 0)]
    middle = [
        ("end", logs),
        ("end", 1),
        ("time", 0),
        ("end", logs),
        ("end", logs),
        ("decided", logs),
        ("end", logs),
        ("batches", logs),
        ("start", logs),
    ]
    last = [("committed", 0), ("end", 1), ("group", 0)]
    assert world.asked == [*begin, *middle, *last]


def test_an_open_transaction_of_the_group_is_named_after_a_while() -> None:
    world = World(random.Random(1))
    run = Run(7, 3)
    world.members[0].run, world.step = run, lambda: None  # type: ignore[method-assign]
    world.append(GROUP, Entry("offset", run, (INPUTS[0], 3)))
    with pytest.raises(OffsetsUnstable, match="producers 7") as caught:
        read_named(world, WRITTEN, patience=0.05, interval=0.01)
    assert caught.value.facts["producers"] == [7]


def disturbed(world: World, how: Callable[[World], None]) -> type[RecoveryError] | None:
    """The error of a look in which that happens right behind its beginning, None where it finds a cut."""
    asked = iter(range(10_000))

    class Disturbed(type(world)):  # type: ignore[misc]
        def committed(self) -> dict[TopicPartition, CommittedOffset]:
            if next(asked) == 0:
                how(self)
            return super().committed()  # type: ignore[no-any-return]

    world.__class__ = Disturbed
    try:
        look(world)
    except RecoveryError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (lambda world: world.append(LEFT[0], Entry("record", None, (1,))), OutsideTransactions),
        (lambda world: world.append(GROUP, Entry("offset", None, (INPUTS[0], 3))), OffsetsByHand),
    ],
)
def test_what_others_do_meanwhile_is_seen(how: Callable[[World], None], error: type[RecoveryError]) -> None:
    found = [disturbed(world_of(seed), how) for seed in range(40)]
    assert None not in found
    assert found.count(error) > 20


def test_an_old_client_is_refused() -> None:
    found = []
    for seed in range(40):
        dice = random.Random(seed)
        world = World(dice, old_client=True)
        for _ in range(100):
            world.step()
        with pytest.raises(RecoveryError) as caught:
            for _ in range(20):
                look(world)
        found.append(type(caught.value))
    assert found.count(EpochsStay) > 20


class Cleaned(World):
    """The changelogs are cleaned before their batches are read, from where they are read."""

    def batches(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, tuple[NamedBatch, ...]]:
        for tp in CHANGELOGS:
            self.compact(tp, ranges[tp][0])
        return super().batches(ranges)


def test_a_changelog_that_is_cleaned_meanwhile_gives_no_wrong_cut() -> None:
    refused = 0
    for seed in range(150):
        world = world_of(seed, Cleaned)
        try:
            found = look(world)
        except OffsetsUnstable as error:
            refused += isinstance(error, RecordsRemoved)
        else:
            assert world.wrong(found) == []
    assert refused > 20
