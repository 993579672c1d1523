"""How far a run goes, and what it did."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.scheduled_run import Reading, RunEntry, ScheduledRun, is_over, next_hop, parse_limit, processed

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.mark.parametrize(("text", "until"), [("ends", None), ("duration:PT30M", 1_801_000), ("duration:P1D", 86_401_000)])
def test_a_limit_is_the_input_or_a_time(text: str, until: int | None) -> None:
    assert parse_limit(text).until(1_000) == until


@pytest.mark.parametrize("text", ["", "end", "duration:", "duration:30m", "duration:PT0S", "PT30M"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        parse_limit(text)


def test_what_was_processed_counts_from_where_it_read_on() -> None:
    assert processed({ONE: 3}, {ONE: 5, TWO: 2}) == {ONE: 2, TWO: 2}
    assert processed({ONE: 3, TWO: 2}, {ONE: 3}) == {}


def of_run(run_id: str, started_at: int) -> ScheduledRun:
    return ScheduledRun(run_id=run_id, started_at=started_at, until=None, ends={}, before={}, gone={}, instances=())


@pytest.mark.parametrize(
    ("kind", "run_id", "started_at", "over"),
    [
        ("begins", "one", 10, False),
        ("ended", "one", 10, True),
        ("begins", "two", 11, True),
        ("ended", "two", 11, True),
        # The entry of the run itself cannot be read.
        ("ended", "zero", 9, False),
        ("begins", "zero", 9, False),
        # The run was begun again under its own name.
        ("ended", "one", 9, False),
    ],
)
def test_a_run_is_over_once_it_has_ended_or_a_later_one_has_begun(
    kind: Literal["begins", "ended"], run_id: str, started_at: int, *, over: bool
) -> None:
    last = RunEntry(kind=kind, at=20, run=of_run(run_id, started_at))
    assert is_over(last, of_run("one", 10)) is over
    assert not is_over(None, of_run("one", 10))


class Chain:
    """An application that writes each record it reads of one topic to the next one, on the way through ``hops`` topics of its own. Records are named for
    the place that the input they come from has in the input.
    """

    def __init__(self, hops: int) -> None:
        self.logs: list[list[int]] = [[] for _ in range(hops + 1)]
        self.committed = [0] * (hops + 1)

    def feed(self, records: int) -> None:
        self.logs[0] += range(len(self.logs[0]), len(self.logs[0]) + records)

    def process(self, topic: int, records: int) -> None:
        for _ in range(min(records, len(self.logs[topic]) - self.committed[topic])):
            record = self.logs[topic][self.committed[topic]]
            self.committed[topic] += 1
            if topic + 1 < len(self.logs):
                self.logs[topic + 1].append(record)

    def unread_of(self, end: int) -> list[int]:
        """What input below ``end`` has caused and nobody has read."""
        return [record for log, at in zip(self.logs, self.committed, strict=True) for record in log[at:] if record < end]


class Run:
    """A run over a chain with so many records in its input."""

    def __init__(self, hops: int, records: int) -> None:
        self.chain, self.records, self.hops = Chain(hops), records, hops
        self.chain.feed(records)
        self.topics = [TopicPartition(f"t{number}", 0) for number in range(hops + 1)]
        self.reading: Reading | None = Reading(targets={self.topics[0]: records}, hop=0, lag={})

    def step(self, what: int, number: int) -> None:
        """Look, feed, or process records of a topic."""
        if what == LOOK:
            self.look()
        elif what == FEED:
            self.chain.feed(number)
        elif what <= self.hops:
            self.chain.process(what, number)

    def look(self) -> None:
        at = dict(zip(self.topics, self.chain.committed, strict=True))
        if self.reading is not None and all(at[name] >= end for name, end in self.reading.targets.items()):
            own = zip(self.topics[1:], self.chain.logs[1:], strict=True)
            self.reading = next_hop(self.reading, {tp: len(log) for tp, log in own})
            if self.reading is None:
                assert self.chain.unread_of(self.records) == []


LOOK, FEED = -2, -1


@given(st.integers(0, 3), st.integers(1, 4), st.lists(st.tuples(st.integers(LOOK, 3), st.integers(1, 4)), min_size=15, max_size=60))
def test_when_a_run_ends_all_that_its_input_caused_is_read_while_new_input_keeps_coming(
    hops: int, records: int, steps: list[tuple[int, int]]
) -> None:
    run = Run(hops, records)
    for what, number in steps:
        run.step(what, number)
    for _ in range(hops + 1):
        for topic in range(hops + 1):
            run.step(FEED, 1)
            run.step(topic, 10_000)
        run.look()
    assert run.reading is None, "it ends"
