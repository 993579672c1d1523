"""A cluster in small: logs, transactions whose markers arrive in any order, and a group's offsets. Time passes only while somebody reads.

Each producer has an input of its own. Its transactions come one after the other, as Kafka has it: the next one begins when every marker of the last one is
written. A transaction writes records to some logs, may commit an offset on its input, and is committed or aborted. Without an offset it is a punctuation's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition

Choose = Callable[[int], int]
INTERNAL = tuple(TopicPartition("state-changelog", number) for number in range(3))
OUTPUT = TopicPartition("out", 0)


@dataclass(frozen=True)
class Transaction:
    """``writes`` has a log for each record, in order. ``markers`` orders the markers: of the logs in the order of ``INTERNAL``, the output, the offset."""

    writes: tuple[TopicPartition, ...]
    moves_offset: bool
    committed: bool
    markers: tuple[int, ...]


def some_producers(choose: Choose) -> tuple[tuple[Transaction, ...], ...]:
    """One or two producers with up to three transactions each."""
    return tuple(tuple(_some_transaction(choose) for _ in range(1 + choose(2))) for _ in range(1 + choose(1)))


def _some_transaction(choose: Choose) -> Transaction:
    places = (*INTERNAL, OUTPUT)
    left, markers = list(range(len(places) + 1)), []
    while left:
        markers.append(left.pop(choose(len(left) - 1)))
    return Transaction(
        writes=tuple(places[choose(len(places) - 1)] for _ in range(1 + choose(3))),
        moves_offset=bool(choose(1)),
        committed=choose(3) > 0,
        markers=tuple(markers),
    )


@dataclass(eq=False)
class _Run:
    """A transaction as it happens."""

    script: Transaction
    producer: int
    offset: int | None


@dataclass
class _Log:
    """Records, and markers, each with its transaction."""

    entries: list[tuple[str, _Run]] = field(default_factory=list)

    @property
    def last_stable(self) -> int:
        ended = {run for what, run in self.entries if what == "marker"}
        return next((offset for offset, (_, run) in enumerate(self.entries) if run not in ended), len(self.entries))

    def below(self, end: int, run: _Run) -> int:
        return sum(what == "record" and found is run for what, found in self.entries[:end])


class World:
    """``choose(n)`` decides what happens next: a number from 0 to n. The methods are the questions that a cut asks (``Logs``)."""

    def __init__(self, scripts: Collection[tuple[Transaction, ...]], choose: Choose) -> None:
        self._choose = choose
        self.logs = {tp: _Log() for tp in (*INTERNAL, OUTPUT)}
        self.inputs = tuple(TopicPartition("in", number) for number in range(len(scripts)))
        self._offsets: dict[TopicPartition, int] = dict.fromkeys(self.inputs, 0)
        self._pending: set[TopicPartition] = set()
        self.runs: list[_Run] = []
        self._ahead = [self._steps_of(number, script) for number, script in enumerate(scripts)]

    def committed(self) -> dict[TopicPartition, CommittedOffset | None]:
        self._pass_time()
        while self._pending:
            self._step()
        return {tp: CommittedOffset(offset=offset, metadata="", leader_epoch=None) for tp, offset in self._offsets.items()}

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._one_by_one(partitions, lambda log: len(log.entries))

    def await_decided(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        while True:
            stable = self._one_by_one(ends, lambda log: log.last_stable)
            if all(stable[tp] >= end for tp, end in ends.items()):
                return stable
            self._step()

    def clock(self) -> int:
        return 0

    def wrong(self, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, CommittedOffset | None]) -> list[str]:
        """Why logs up to ``ends``, read as committed, with these offsets, are not the work of whole transactions. Empty when they are."""
        while any(self._ahead):
            self._step()
        found = []
        for number, run in enumerate(self.runs):
            if not run.script.committed:
                continue
            touched = {tp for tp in run.script.writes if tp in INTERNAL}
            here = {tp for tp in touched if self.logs[tp].below(ends[tp], run)}
            whole = all(self.logs[tp].below(ends[tp], run) == run.script.writes.count(tp) for tp in here)
            if not whole or here not in (set(), touched):
                found.append(f"transaction {number} is there in part: {sorted(here)} of {sorted(touched)}")
            position = committed[self.inputs[run.producer]]
            if touched and run.offset is not None and bool(here) != (position is not None and position.offset >= run.offset):
                found.append(f"transaction {number} and its offset {run.offset} differ: {bool(here)}, {position}")
            if here and self.logs[OUTPUT].below(ends[OUTPUT], run) != run.script.writes.count(OUTPUT):
                found.append(f"the output of transaction {number} is missing")
        return found

    def _one_by_one(self, partitions: Collection[TopicPartition], look: Callable[[_Log], int]) -> dict[TopicPartition, int]:
        """Each partition at a time of its own, in any order."""
        left, found = sorted(partitions), {}
        while left:
            tp = left.pop(self._choose(len(left) - 1))
            self._pass_time()
            found[tp] = look(self.logs[tp])
        return found

    def _pass_time(self) -> None:
        for _ in range(self._choose(4)):
            self._step()

    def _step(self) -> None:
        alive = [number for number, steps in enumerate(self._ahead) if steps]
        if alive:
            self._ahead[alive[self._choose(len(alive) - 1)]].pop(0)()

    def _steps_of(self, producer: int, script: tuple[Transaction, ...]) -> list[Callable[[], None]]:
        steps: list[Callable[[], None]] = []
        for number, transaction in enumerate(script):
            run = _Run(transaction, producer, number + 1 if transaction.moves_offset else None)
            self.runs.append(run)
            steps += [self._append(tp, "record", run) for tp in transaction.writes]
            if run.offset is not None:
                steps.append(self._offset_sent(run))
            places = [tp for tp in (*INTERNAL, OUTPUT) if tp in transaction.writes]
            marks = [self._append(tp, "marker", run) for tp in places] + ([self._offset_decided(run)] if run.offset is not None else [])
            steps += [mark for _, mark in sorted(zip(transaction.markers, marks, strict=False), key=lambda pair: pair[0])]
        return steps

    def _append(self, tp: TopicPartition, what: str, run: _Run) -> Callable[[], None]:
        return lambda: self.logs[tp].entries.append((what, run))

    def _offset_sent(self, run: _Run) -> Callable[[], None]:
        return lambda: self._pending.add(self.inputs[run.producer])

    def _offset_decided(self, run: _Run) -> Callable[[], None]:
        def decide() -> None:
            self._pending.discard(self.inputs[run.producer])
            if run.script.committed:
                self._offsets[self.inputs[run.producer]] = run.offset or 0

        return decide
