"""How far a group is behind, by records: what offsets say, what must be read to know, and what is known then."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.lag import Found, Lag, behind, lags, read, to_read

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, metadata="", leader_epoch=None)


def seen(committed: int, end: int, *, upto: int | None = None, record: bool = False, looks: int = 1) -> Lag:
    return Lag(committed=committed, end=end, upto=committed if upto is None else upto, record=record, looks=looks)


def test_a_partition_is_behind_until_its_end_is_committed() -> None:
    assert lags({}, {ONE: 5, TWO: 0}, {ONE: at(4), TWO: None}) == {ONE: seen(4, 5)}
    assert lags({}, {ONE: 5}, {ONE: None}) == lags({}, {ONE: 5}, {}) == {ONE: seen(0, 5)}
    assert lags({}, {ONE: 5, TWO: 3}, {ONE: at(5), TWO: at(9)}) == {}
    assert behind({ONE: seen(4, 9)}, {ONE: 9, TWO: 3}) == {ONE: 5}


def test_only_what_did_not_move_is_read_and_the_shortest_first() -> None:
    first = lags({}, {ONE: 9, TWO: 5}, {ONE: at(4), TWO: at(4)})
    assert to_read(first, looks=2, most=9) == {}
    assert to_read(first, looks=1, most=1) == {TWO: (4, 5)}, "an application that is down is looked at once"
    second = lags(first, {ONE: 9, TWO: 5}, {ONE: at(6), TWO: at(4)})
    assert to_read(second, looks=2, most=9) == {TWO: (4, 5)}
    assert second[ONE] == seen(6, 9), "what moved is another range"


def test_without_a_record_up_to_its_end_a_partition_is_not_behind() -> None:
    found = read({ONE: seen(4, 6, looks=2)}, {ONE: Found(upto=6, record=False)})
    assert behind(found, {ONE: 6}) == {}
    more = lags(found, {ONE: 8}, {ONE: at(4)})
    assert (behind(more, {ONE: 8}), to_read(more, looks=2, most=9)) == ({ONE: 4}, {ONE: (6, 8)}), "only what is new is read"
    known = read(more, {ONE: Found(upto=7, record=True)})
    assert (behind(known, {ONE: 8}), behind(known, {ONE: 7})) == ({ONE: 4}, {})
    assert to_read(lags(known, {ONE: 99}, {ONE: at(4)}), looks=2, most=9) == {}, "there is a record, whatever comes after it"


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

    def next_record(self, start: int, end: int) -> Found:
        upto = max(start, min(end, self.decided))
        following = [offset for offset in range(start, upto) if self.visible[offset]]
        return Found(upto=following[0] if following else upto, record=bool(following))

    @property
    def unread(self) -> bool:
        return any(self.visible[self.committed :]) or self.decided < len(self.visible)


Step = tuple[list[bool], int, int]


@given(st.lists(st.tuples(st.lists(st.booleans(), max_size=4), st.integers(0, 3), st.integers(0, 4)), max_size=25))
def test_looks_agree_with_the_log_and_two_of_one_that_stands_still_are_enough(steps: list[Step]) -> None:
    log, known = Log(), dict[TopicPartition, Lag]()

    def look() -> dict[TopicPartition, int]:
        nonlocal known
        end = len(log.visible)
        found = lags(known, {ONE: end}, {ONE: at(log.committed)})
        known = read(found, {tp: log.next_record(*span) for tp, span in to_read(found, looks=2, most=9).items()})
        return behind(known, {ONE: end})

    for written, undecided, processed in steps:
        log.visible += written
        log.decided = max(log.decided, len(log.visible) - undecided)
        log.process(processed)
        assert look() or not log.unread, "nothing unread is taken for read"
    log.decided = len(log.visible)
    log.process(len(log.visible))
    look()
    assert look() == {}, "what nobody is ever given holds nobody up"
