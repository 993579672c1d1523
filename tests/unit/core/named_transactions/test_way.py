"""Which way a savepoint takes, and the first condition of the better one that is not met."""

from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import CommittedOffset, Guarantee, QuiesceMode, TopicPartition
from streams_recovery.core.named_transactions.readings import GroupRecord, Name
from streams_recovery.core.named_transactions.way import (
    CaptureWay,
    Condition,
    NamesFacts,
    RecentTransactions,
    missing_guarantee,
    missing_in,
    missing_of_loops,
    modes_text,
    way_of,
)
from streams_recovery.core.remedies.remedy import KafkaTools

TOOLS = KafkaTools("broker:9092", secured=False)
TP = TopicPartition("in", 0)


def offset(at: int, producer_id: int, epoch: int, *, transactional: bool = True) -> GroupRecord:
    return GroupRecord(at, producer_id, epoch, transactional, tp=TP, committed=CommittedOffset(offset=at, metadata=""))


def marker(at: int, producer_id: int, epoch: int) -> GroupRecord:
    return GroupRecord(at, producer_id, epoch, transactional=True, marker=True)


def members(at: int) -> GroupRecord:
    return GroupRecord(at, -1, -1, transactional=False)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], RecentTransactions()),
        ([offset(0, 1, 4), marker(1, 1, 5), offset(2, 1, 5), marker(3, 1, 6)], RecentTransactions(rise=frozenset({1}))),
        ([offset(0, 1, 4), marker(1, 1, 5), offset(2, 2, 0), marker(3, 2, 0)], RecentTransactions(rise=frozenset({1}), kept=Name(2, 0))),
        ([offset(0, 1, 4), offset(1, 1, 4), marker(2, 7, 4), marker(3, 1, 4)], RecentTransactions(kept=Name(1, 4))),
        # Of other groups there are only markers, and of one that began before the records that are read.
        ([marker(0, 9, 3), marker(1, 1, 1)], RecentTransactions()),
        ([offset(0, -1, -1, transactional=False)], RecentTransactions(outside=TP)),
        ([offset(0, 2, 0), marker(1, 2, 0), offset(2, -1, -1, transactional=False), members(3)], RecentTransactions()),
        # It was open when its member left.
        ([offset(0, 2, 0), members(1), marker(2, 2, 0)], RecentTransactions()),
        ([members(0), offset(1, 2, 0), marker(2, 2, 0)], RecentTransactions(kept=Name(2, 0))),
    ],
)
def test_the_present_members_transactions_show_whether_they_have_names(records: list[GroupRecord], found: RecentTransactions) -> None:
    assert RecentTransactions.of(records) == found


@pytest.mark.parametrize(
    ("facts", "condition", "said"),
    [
        ({"version": 1}, Condition.VERSION, "transaction.version is 1: its producers keep their epoch"),
        ({"version": 1, "unreadable": "no", "refused": True}, Condition.VERSION, ""),
        ({"version": 2, "unreadable": "no", "refused": True}, Condition.READABLE, "User:me may not read it"),
        ({"version": 2, "unreadable": "the cluster does not show it"}, Condition.READABLE, "and the cluster does not show it"),
        ({"version": 2, "recent": RecentTransactions(kept=Name(4, 0), outside=TP)}, Condition.CLIENTS, "producer 4 has kept its epoch"),
        ({"version": 3, "recent": RecentTransactions(outside=TP)}, Condition.ONLY_TRANSACTIONS, "the offset of in-0 was committed"),
    ],
)
def test_the_first_condition_that_is_not_met_is_said(facts: dict[str, object], condition: Condition, said: str) -> None:
    found = missing_in(NamesFacts(tools=TOOLS, principal="User:me", **facts))  # type: ignore[arg-type]
    assert found is not None
    assert (found.condition, said in found.text) == (condition, True)
    helped = {Condition.VERSION, Condition.CLIENTS} | ({Condition.READABLE} if "refused" in facts else set())
    assert (found.remedy is not None) == (condition in helped)


def test_with_all_of_them_nothing_is_missing() -> None:
    assert missing_in(NamesFacts(tools=TOOLS, principal="", version=2, recent=RecentTransactions(rise=frozenset({1})))) is None
    assert missing_guarantee(Guarantee.EXACTLY_ONCE_V2) is None
    assert missing_of_loops(["orders"], ["totals"]) is None
    loops = missing_of_loops(["orders", "customers"], ("totals", "orders"))
    assert loops is not None
    assert (loops.condition, loops.text) == (Condition.LOOPS, "it reads orders, which it writes too")
    at_least_once = missing_guarantee(Guarantee.AT_LEAST_ONCE)
    assert at_least_once is not None
    assert at_least_once.text == "at_least_once has no transactions"


@pytest.mark.parametrize(
    ("mode", "running", "names", "way", "said"),
    [
        (QuiesceMode.LIVE, True, True, CaptureWay.NAMES, "exact, and nothing is held"),
        (
            QuiesceMode.LIVE,
            True,
            False,
            CaptureWay.LIVE,
            "stand still while they are read. Not by the names of its transactions, because at_least_once has",
        ),
        (QuiesceMode.PAUSE, True, True, CaptureWay.PAUSE, "paused for it. With mode live nothing would be held"),
        (QuiesceMode.PAUSE, True, False, CaptureWay.PAUSE, "paused for it. Not by the names"),
        (QuiesceMode.STOP, True, True, CaptureWay.STOP, "With mode live nothing would be held"),
        (QuiesceMode.LIVE, False, False, CaptureWay.DOWN, "does not run, so nothing is held"),
        (QuiesceMode.STOP, False, True, CaptureWay.DOWN, "does not run, so nothing is held"),
    ],
)
def test_the_mode_decides_where_all_conditions_are_met(mode: QuiesceMode, running: bool, names: bool, way: CaptureWay, said: str) -> None:
    found = way_of(mode, running=running, missing=None if names else missing_guarantee(Guarantee.AT_LEAST_ONCE))
    assert (found.way, said in found.text) == (way, True)


@pytest.mark.parametrize(
    ("refused", "no_pause", "names", "told"),
    [
        ({}, None, True, "stop (closed and started again), pause (paused meanwhile), live (exact, nothing is held)"),
        (
            {},
            "it has no port",
            False,
            "stop (closed and started again), live (nothing is held; exact only if its logs stand still); not pause, because it has no port",
        ),
        (
            {QuiesceMode.PAUSE: "it cannot", QuiesceMode.LIVE: "nor this"},
            None,
            False,
            "stop (closed and started again); not pause, because it cannot; not live, because nor this",
        ),
    ],
)
def test_the_modes_that_an_application_can_use_are_named(
    refused: dict[QuiesceMode, str], no_pause: str | None, names: bool, told: str
) -> None:
    assert modes_text(refused, no_pause, None if names else missing_guarantee(Guarantee.AT_LEAST_ONCE)) == told
