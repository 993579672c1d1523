"""What a look for a cut by names reads, and which outputs the cut has, for savepoints and for archivers."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.named_transactions.cut import LookAgain, cut_with_outputs
from streams_recovery.core.named_transactions.readings import NamedBatch, NamedReadings, WrittenLogs, read_named
from streams_recovery.core.savepoint.writers import Writers
from streams_recovery.kafka.application_logs import ApplicationLogs
from streams_recovery.kafka.named_transactions import NamedLogs
from tests.support.kafka.named_transactions_model import BETWEEN, CHANGELOGS, OUTPUT, WRITTEN, World

OWN, OTHER = 7, 99
LOGS = WrittenLogs(changelogs=CHANGELOGS, between=BETWEEN, outputs=(OUTPUT,))


class Writing:
    """What leaders remember of the writers of logs: of these ones also another application's, from the question of this number on."""

    def __init__(self, shared: Collection[TopicPartition], since: int) -> None:
        self.shared, self.since, self.asked = shared, since, 0

    def transactional_writers(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Writers]:
        # One question is about the outputs and about the logs that the application alone writes.
        self.asked += OUTPUT in partitions
        others = self.shared if self.asked >= self.since else ()
        return {tp: Writers(transactional=(OWN, OTHER) if tp in others else (OWN,), other=()) for tp in partitions}

    def transactional_ids(self, producers: Collection[int]) -> dict[int, str]:
        return dict.fromkeys(producers, "billing-1")


class Reader(World):
    """An application that has done nothing, whose looks note which logs they have read."""

    def __init__(self, *shared: TopicPartition, since: int = 1) -> None:
        super().__init__(random.Random(1))
        self.read: set[TopicPartition] = set()
        writing: Any = Writing(shared, since)
        nothing: Any = None
        self.written = ApplicationLogs(
            application_id="app",
            cluster=nothing,
            groups=nothing,
            transactions=writing,
            read=(),
            clock=lambda: 0,
            patience=1,
            loads=tuple,
        )

    def batches(self, ranges: Any) -> Any:
        self.read |= set(ranges)
        return super().batches(ranges)


class _Looking(NamedLogs):
    """Asks that application in place of a cluster."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.logs = reader, reader.written
        for verb in ("group_partition", "clock", "high_watermarks", "last_stable_offsets", "await_decided", "log_starts", "committed"):
            setattr(self, verb, getattr(reader, verb))
        for verb in ("batches", "group_records"):
            setattr(self, verb, getattr(reader, verb))


def looked(reader: Reader, attempt: int, attempts: int) -> tuple[bool, bool]:
    """Whether such a look has read the output, and whether its cut has it."""
    _, named = _Looking(reader).look(LOGS, attempt, attempts)
    assert {*CHANGELOGS, *BETWEEN} <= reader.read
    assert {*CHANGELOGS, *BETWEEN} <= named.logs.keys()
    return OUTPUT in reader.read, OUTPUT in named.logs


@pytest.mark.parametrize(
    ("shared", "since", "attempt", "attempts", "read", "has"),
    [
        ((), 1, 1, 3, True, True),
        ((), 1, 1, 1, True, True),
        ((), 1, 3, 3, False, False),
        ((OUTPUT,), 1, 1, 3, False, False),
        ((OUTPUT,), 1, 3, 3, False, False),
        ((OUTPUT,), 2, 1, 3, True, False),
    ],
    ids=["own", "the only look", "the last of several", "of others", "of others, the last", "others came meanwhile"],
)
def test_outputs_are_not_waited_for_where_others_write_to_them_nor_in_the_last_of_several_looks(
    shared: tuple[TopicPartition, ...], since: int, attempt: int, attempts: int, read: bool, has: bool
) -> None:
    assert looked(Reader(*shared, since=since), attempt, attempts) == (read, has)


def readings(*more: NamedBatch) -> NamedReadings:
    """Of an application that has done nothing, with these batches in its output."""
    read = read_named(World(random.Random(1)), WRITTEN, patience=1, interval=0)
    end = max((batch.last + 1 for batch in more), default=0)
    tail = replace(read.logs[OUTPUT], batches=more, before=end, after=end, ends=end, stable=end)
    return replace(read, logs={**read.logs, OUTPUT: tail})


RECORDS = NamedBatch(0, 2, OTHER, 4, transactional=True, marker=None, records=3)
MARKER = NamedBatch(3, 3, OTHER, 5, transactional=True, marker=True, records=1)
HOLE = RECORDS._replace(records=2)


@pytest.mark.parametrize(
    ("shared", "batches", "has", "why"),
    [
        ((), (), True, ""),
        ((), (RECORDS, MARKER), True, ""),
        (("out",), (RECORDS, MARKER), False, "others write to out"),
        (("out",), (), False, "others write to out"),
        (("elsewhere",), (RECORDS, MARKER), True, ""),
        ((), (RECORDS._replace(transactional=False),), False, "others write to out"),
        ((), (RECORDS, MARKER._replace(epoch=4)), False, "producer 99 ends a transaction with the epoch 4 of its records"),
    ],
    ids=[
        "own",
        "own punctuations",
        "another writer",
        "another writer that pauses",
        "another topic",
        "without transactions",
        "a client before 4.0",
    ],
)
def test_the_cut_has_only_outputs_that_nobody_else_writes_to(
    shared: tuple[str, ...], batches: tuple[NamedBatch, ...], has: bool, why: str
) -> None:
    named, said = cut_with_outputs(readings(*batches), LOGS, shared, last=False)
    assert named.logs.keys() == {*CHANGELOGS, *BETWEEN, *([OUTPUT] if has else [])}
    assert (why in said, bool(said)) == (True, bool(why))


def test_an_output_is_no_reason_against_the_state_in_a_last_look() -> None:
    with pytest.raises(LookAgain):
        cut_with_outputs(readings(HOLE, MARKER), LOGS, (), last=False)
    named, said = cut_with_outputs(readings(HOLE, MARKER), LOGS, (), last=True)
    assert named.logs.keys() == {*CHANGELOGS, *BETWEEN}
    assert "lacks a record" in said


def test_readings_without_outputs_make_a_cut_without_them() -> None:
    read = readings()
    internal = {tp: tail for tp, tail in read.logs.items() if tp != OUTPUT}
    named, said = cut_with_outputs(replace(read, logs=internal), LOGS, (), last=True)
    assert ({*named.logs}, said) == ({*CHANGELOGS, *BETWEEN}, "")
