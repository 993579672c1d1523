"""How far a group is behind: the one definition, what must be read to know whether records are left, and what is known then."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.lag import Lag, NextRecord, Unread, follow, lags, read, to_read, unread
from tests.support.project import PROJECT

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.mark.parametrize(
    ("committed", "start", "stable", "end", "behind", "undecided", "gone", "text"),
    [
        # Retention has deleted the beginning, and the last records are in an open transaction.
        (None, 5000, 5090, 5100, 90, 10, 0, "90 (10 more in open transactions)"),
        (4000, 5000, 5090, 5100, 90, 10, 1000, "90 (10 more in open transactions, 1000 deleted unread)"),
        (5050, 5000, 5090, 5100, 40, 10, 0, "40 (10 more in open transactions)"),
        (5095, 5000, 5090, 5100, 0, 5, 0, "0 (5 more in open transactions)"),
        (5100, 5000, 5090, 5100, 0, 0, 0, "0"),
        (5200, 5000, 5090, 5100, 0, 0, 0, "0"),
        (0, 0, 5, 5, 5, 0, 0, "5"),
        (None, 5, 5, 5, 0, 0, 0, "0"),
        (2, 5, 5, 5, 0, 0, 3, "0 (3 deleted unread)"),
        # Up to where the log ended earlier: what came later counts for nothing, and of what is gone only what was below.
        (4000, 5000, 5090, 5060, 60, 0, 1000, "60 (1000 deleted unread)"),
        (4000, 5000, 5090, 4500, 0, 0, 500, "0 (500 deleted unread)"),
    ],
)
def test_one_partition_has_one_lag(
    committed: int | None, start: int, stable: int, end: int, behind: int, undecided: int, gone: int, text: str
) -> None:
    lag = Lag(committed=committed, start=start, stable=stable, end=end)
    assert (lag.behind, lag.undecided, lag.gone, lag.left, str(lag)) == (behind, undecided, gone, behind + undecided, text)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_every_unread_offset_is_counted_once(committed: int, start: int, decided: int, undecided: int, back: int) -> None:
    stable, high = start + decided, start + decided + undecided
    lag = Lag(committed=committed, start=start, stable=stable, end=max(0, high - back))
    unread_ones = range(committed, lag.end)
    assert lag.gone == sum(offset < start for offset in unread_ones)
    assert lag.behind == sum(start <= offset < stable for offset in unread_ones)
    assert lag.undecided == sum(offset >= max(start, stable) for offset in unread_ones)


ENDS = {"end", "ends", "own_ends", "stable", "last_stable", "start", "starts", "log_start", "high"}
COMMITS = {"committed", "offset", "offsets", "known", "position", "read", "needed", "first", "mine", "theirs", "at"}


def _names(node: ast.expr) -> set[str]:
    return {one.id if isinstance(one, ast.Name) else one.attr for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute)}


def own_lags(package: Path) -> Iterator[str]:
    """Places where an end or a start of a log less an offset of a reader is taken."""
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] not in ("core", "operations", "operators", "cli", "ui", "triggers", "sensors"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                left, right = _names(node.left), _names(node.right)
                if left & ENDS and not left & COMMITS and right & COMMITS:
                    yield f"{path.relative_to(package)}: {ast.unparse(node)}"


def test_nobody_else_takes_a_committed_offset_from_an_end() -> None:
    assert set(own_lags(PROJECT / "plugins" / "streams_recovery")) == {
        "core/lag.py: min(self.start, self.end) - self.committed",
        "core/lag.py: min(self.stable, self.end) - self.position",
        "core/lag.py: self.end - max(self.stable, self.position)",
        # Records of a range that nobody counted by name.
        "core/named_transactions/proof.py: self.start - first",
        # Records between the offsets of two groups, where the range is longer than anybody counts.
        "operations/rollout/discover.py: end - first",
    }, "core/lag.py says how far a reader is behind"


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata="", leader_epoch=None)


def lag_of(committed: int | None, end: int) -> Lag:
    return Lag(committed=committed, start=0, stable=end, end=end)


def seen(committed: int | None, end: int, *, upto: int | None = None, record: bool = False, looks: int = 1) -> Unread:
    return Unread(lag=lag_of(committed, end), upto=(committed or 0) if upto is None else upto, record=record, looks=looks)


def test_each_partition_has_what_was_read_of_it() -> None:
    found = lags({ONE: at(4), TWO: None}, {ONE: 1, TWO: 2}, {ONE: 5, TWO: 6}, {ONE: 7, TWO: 8})
    assert found == {ONE: Lag(committed=4, start=1, stable=5, end=7), TWO: Lag(committed=None, start=2, stable=6, end=8)}


def test_a_partition_is_followed_until_nothing_is_left() -> None:
    assert follow({}, {ONE: lag_of(4, 5), TWO: lag_of(None, 0)}) == {ONE: seen(4, 5)}
    assert follow({}, {ONE: lag_of(None, 5)}) == {ONE: seen(None, 5)}
    assert follow({}, {ONE: lag_of(5, 5), TWO: lag_of(9, 3)}) == {}
    assert follow({}, {ONE: Lag(committed=1, start=5, stable=5, end=5)}) == {}, "what was deleted is nothing to wait for"
    assert unread({ONE: seen(4, 9)}, {ONE: 9, TWO: 3}) == {ONE: lag_of(4, 9)}
    assert unread({ONE: seen(4, 9)}, {ONE: 6}) == {ONE: Lag(committed=4, start=0, stable=9, end=6)}


def test_only_what_did_not_move_is_read_and_the_shortest_first() -> None:
    first = follow({}, {ONE: lag_of(4, 9), TWO: lag_of(4, 5)})
    assert to_read(first, looks=2, most=9) == {}
    assert to_read(first, looks=1, most=1) == {TWO: (4, 5)}, "an application that is down is looked at once"
    second = follow(first, {ONE: lag_of(6, 9), TWO: lag_of(4, 5)})
    assert to_read(second, looks=2, most=9) == {TWO: (4, 5)}
    assert second[ONE] == seen(6, 9), "what moved is another range"
    trimmed = follow({}, {ONE: Lag(committed=1, start=5, stable=9, end=9)})
    assert to_read(trimmed, looks=1, most=9) == {ONE: (5, 9)}, "what is gone is not read"


def test_without_a_record_up_to_its_end_a_partition_is_not_behind() -> None:
    found = read({ONE: seen(4, 6, looks=2)}, {ONE: NextRecord(upto=6, record=False)})
    assert unread(found, {ONE: 6}) == {}
    more = follow(found, {ONE: lag_of(4, 8)})
    assert (unread(more, {ONE: 8}), to_read(more, looks=2, most=9)) == ({ONE: lag_of(4, 8)}, {ONE: (6, 8)}), "only what is new is read"
    known = read(more, {ONE: NextRecord(upto=7, record=True)})
    assert (unread(known, {ONE: 8})[ONE].left, unread(known, {ONE: 7})) == (4, {})
    assert to_read(follow(known, {ONE: lag_of(4, 99)}), looks=2, most=9) == {}, "there is a record, whatever comes after it"


@dataclass
class Log:
    """One partition, and a group that commits behind each record that it is given; of all else it is told nothing."""

    visible: list[bool] = field(default_factory=list)
    decided: int = 0
    committed: int = 0

    def process(self, records: int) -> None:
        for _ in range(records):
            following = [offset for offset in range(self.committed, self.decided) if self.visible[offset]]
            if following:
                self.committed = following[0] + 1

    def next_record(self, start: int, end: int) -> NextRecord:
        upto = max(start, min(end, self.decided))
        following = [offset for offset in range(start, upto) if self.visible[offset]]
        return NextRecord(upto=following[0] if following else upto, record=bool(following))

    @property
    def unread(self) -> bool:
        return any(self.visible[self.committed :]) or self.decided < len(self.visible)


Step = tuple[list[bool], int, int]


@given(st.lists(st.tuples(st.lists(st.booleans(), max_size=4), st.integers(0, 3), st.integers(0, 4)), max_size=25))
def test_looks_agree_with_the_log_and_two_of_one_that_stands_still_are_enough(steps: list[Step]) -> None:
    log, known = Log(), dict[TopicPartition, Unread]()

    def look() -> dict[TopicPartition, Lag]:
        nonlocal known
        end = len(log.visible)
        found = follow(known, {ONE: Lag(committed=log.committed, start=0, stable=log.decided, end=end)})
        known = read(found, {tp: log.next_record(*span) for tp, span in to_read(found, looks=2, most=9).items()})
        return unread(known, {ONE: end})

    for written, undecided, processed in steps:
        log.visible += written
        log.decided = max(log.decided, len(log.visible) - undecided)
        log.process(processed)
        assert look() or not log.unread, "nothing unread is taken for read"
    log.decided = len(log.visible)
    log.process(len(log.visible))
    look()
    assert look() == {}, "what nobody is ever given holds nobody up"
