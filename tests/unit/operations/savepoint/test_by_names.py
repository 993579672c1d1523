"""What a look for a cut by names reads, and which outputs the cut has."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.named_transactions.readings import NamedBatch, NamedReadings, read_named
from streams_recovery.kafka.transactions import Writers
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.discovery import Discovery
from streams_recovery.operations.savepoint.by_names import _cut, _logs_to_read
from tests.support.kafka.named_transactions_model import BETWEEN, CHANGELOGS, OUTPUT, WRITTEN, World

OWN, OTHER = 7, 99


def found() -> Discovery:
    """The topics of the model."""
    of_role = {TopicRole.CHANGELOG: CHANGELOGS, TopicRole.REPARTITION: BETWEEN, TopicRole.OUTPUT: (OUTPUT,)}
    return cast("Discovery", SimpleNamespace(partitions=lambda *roles: tuple(tp for role in roles for tp in of_role.get(role, ()))))


def recovery(*shared: TopicPartition) -> RecoveryContext:
    """Of which these logs have another writer."""

    def writers(partitions: Collection[TopicPartition]) -> dict[TopicPartition, Writers]:
        return {tp: Writers(transactional=(OWN, OTHER) if tp in shared else (OWN,), other=()) for tp in partitions}

    given: Any = SimpleNamespace(
        application_id="app",
        cluster=None,
        groups=None,
        transactions=SimpleNamespace(transactional_writers=writers, transactional_ids=lambda ids: dict.fromkeys(ids, "billing-1")),
        clock=lambda: 0,
        config=SimpleNamespace(backup=SimpleNamespace(consistency=SimpleNamespace(timeout_seconds=1))),
    )
    return cast("RecoveryContext", given)


def readings(*more: NamedBatch) -> NamedReadings:
    """Of an application that has done nothing, with these batches in its output."""
    read = read_named(World(random.Random(1)), WRITTEN, patience=1, interval=0)
    end = max((batch.last + 1 for batch in more), default=0)
    tail = replace(read.logs[OUTPUT], batches=more, before=end, after=end, ends=end, stable=end)
    return replace(read, logs={**read.logs, OUTPUT: tail})


@pytest.mark.parametrize(
    ("shared", "outputs", "read"), [((), True, True), ((), False, False), ((OUTPUT,), True, False), ((OUTPUT,), False, False)]
)
def test_outputs_are_not_waited_for_where_others_write_to_them_nor_in_a_look_without_outputs(
    shared: tuple[TopicPartition, ...], outputs: bool, read: bool
) -> None:
    assert _logs_to_read(recovery(*shared), found(), outputs=outputs) == (*CHANGELOGS, *BETWEEN, *([OUTPUT] if read else []))


RECORDS = NamedBatch(0, 2, OTHER, 4, transactional=True, marker=None, records=3)
MARKER = NamedBatch(3, 3, OTHER, 5, transactional=True, marker=True, records=1)


@pytest.mark.parametrize(
    ("shared", "batches", "has"),
    [
        ((), (), True),
        ((), (RECORDS, MARKER), True),
        ((OUTPUT,), (RECORDS, MARKER), False),
        ((OUTPUT,), (), False),
        ((), (RECORDS._replace(transactional=False),), False),
        ((), (RECORDS, MARKER._replace(epoch=4)), False),
    ],
    ids=["own", "own punctuations", "another writer", "another writer that pauses", "without transactions", "a client before 4.0"],
)
def test_the_cut_has_only_outputs_that_nobody_else_writes_to(
    shared: tuple[TopicPartition, ...], batches: tuple[NamedBatch, ...], has: bool
) -> None:
    named = _cut(recovery(*shared), readings(*batches), found(), last=False)
    assert named.logs.keys() == {*CHANGELOGS, *BETWEEN, *([OUTPUT] if has else [])}


def test_readings_without_outputs_make_a_cut_without_them() -> None:
    read = readings()
    internal = {tp: tail for tp, tail in read.logs.items() if tp != OUTPUT}
    named = _cut(recovery(), replace(read, logs=internal), found(), last=True)
    assert named.logs.keys() == {*CHANGELOGS, *BETWEEN}
