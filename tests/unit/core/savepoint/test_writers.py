"""Producers of a restore are left out of account as long as they have appended nothing since, and as long as the log is the one that was loaded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.codec import MOST_BYTES_OF_ENTRY
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.savepoint.writers import (
    MOST_SINCE,
    Loaded,
    LoadedEntry,
    LoadedPartition,
    LoadedTopic,
    ProducerProgress,
    Writers,
    loaded_by,
    loaded_topics,
    not_proven,
)

TP, OTHER = TopicPartition("app-counts-changelog", 0), TopicPartition("app-counts-changelog", 1)
WRAPS = 1 << 31


def progress(producer_id: int = 7, epoch: int = 0, sequence: int = 9, timestamp: int = 5) -> ProducerProgress:
    return ProducerProgress(producer_id=producer_id, producer_epoch=epoch, last_sequence=sequence, last_timestamp=timestamp)


LOADED = LoadedPartition(partition=0, end=10, producers=(progress(),))
ENTRY = LoadedEntry(restore_id="r", cluster_id="c", at=1, topics=(LoadedTopic(topic=TP.topic, topic_id="id", partitions=(LOADED,)),))


@dataclass(frozen=True)
class Batch:
    """Records of a producer with its sequence behind them. Counts are numbers, so that a sequence may go round."""

    producer: ProducerProgress
    records: int
    transactional: bool
    restored: bool


@dataclass
class Leader:
    """A log and what its leader remembers: made from the batches that are there, as a broker does that has lost its snapshots."""

    batches: list[Batch] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return sum(one.records for one in self.batches)

    def append(self, producer_id: int, records: int, timestamp: int, *, transactional: bool = False, restored: bool = False) -> None:
        epoch, last = self.sequences.get(producer_id, (0, -1))
        if not transactional and self._known(producer_id) not in (None, (epoch, last)):
            # The leader has lost what the producer knows: the broker refuses its sequence, and it begins anew with another epoch.
            epoch, last = epoch + 1, -1
        last = (last + records) % WRAPS
        self.sequences[producer_id] = epoch, last
        self.forgotten.discard(producer_id)
        self.batches.append(Batch(progress(producer_id, epoch, last, timestamp), records, transactional, restored))

    def _known(self, producer_id: int) -> tuple[int, int] | None:
        newest = {one.producer.producer_id: one.producer for one in self.batches}.get(producer_id)
        return None if newest is None else (newest.producer_epoch, newest.last_sequence)

    def writers(self) -> Writers:
        newest = {one.producer.producer_id: one for one in self.batches if one.producer.producer_id not in self.forgotten}
        return Writers(
            transactional=tuple(sorted(key for key, one in newest.items() if one.transactional)),
            other=tuple(sorted(one.producer for one in newest.values() if not one.transactional)),
        )


LOADERS, FOREIGN, OWN = (1, 2), (11, 12), (21, 22)
APPENDS = st.tuples(
    st.sampled_from((*LOADERS, *FOREIGN, *OWN)), st.sampled_from((1, 2, MOST_SINCE - 1, MOST_SINCE, WRAPS - 1, WRAPS)), st.integers(0, 1)
)
STEPS = st.lists(st.one_of(APPENDS, st.tuples(st.sampled_from(("forget", "cut back")), st.integers(0, 5), st.just(0))), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    load=st.lists(st.tuples(st.sampled_from(LOADERS), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=4),
    steps=STEPS,
    state=st.booleans(),
)
def test_what_is_proven_has_no_record_outside_transactions_since_the_load_of_a_producer_that_is_remembered(
    load: list[tuple[int, int, int]], steps: list[tuple[int | str, int, int]], state: bool
) -> None:
    leader = Leader()
    for producer_id, records, timestamp in load:
        leader.append(producer_id, records, timestamp, restored=True)
    at_load = LoadedPartition(partition=0, end=leader.end, producers=leader.writers().other)
    for what, number, timestamp in steps:
        if isinstance(what, int):
            leader.append(what, number, timestamp, transactional=what in OWN)
        elif what == "forget":
            leader.forgotten |= {one.producer.producer_id for one in leader.batches[number : number + 1]}
        else:
            del leader.batches[max(0, len(leader.batches) - number) :]
    writers, ends, loaded = {TP: leader.writers()}, {TP: leader.end}, {TP: at_load}
    # Of what a cut back has lost nobody knows how many records there were: that there were 2^31 is left out here.
    assume(
        all(sum(number for what, number, _ in steps if what == one) < WRAPS for one in LOADERS)
        or all(what != "cut back" for what, _, _ in steps)
    )
    since = [one for one in leader.batches if not one.restored]
    outside = [one for one in since if not one.transactional and one.producer.producer_id not in leader.forgotten]
    proven = not not_proven(writers, ends, loaded, state=[TP] if state else [])
    event(f"proven: {proven}, outside: {bool(outside)}, since: {bool(since)}")
    if proven:
        assert not outside
        assert not state or writers[TP].transactional or ends[TP] == at_load.end
    # Whatever was proven without the record is proven with it.
    assert proven or not_proven(writers, ends, {}, state=[TP] if state else [])
    if all(one.transactional for one in since) and 0 <= leader.end - at_load.end < MOST_SINCE and at_load.producers == writers[TP].other:
        assert proven or (state and since and not writers[TP].transactional)


def only(*other: ProducerProgress, transactional: tuple[int, ...] = (21,), end: int = 12, loaded: Loaded | None = None) -> bool:
    """Whether a changelog with these writers is proven."""
    known = {TP: LOADED} if loaded is None else loaded
    return not not_proven({TP: Writers(transactional=transactional, other=other)}, {TP: end}, known, state=[TP])


@pytest.mark.parametrize(
    ("other", "proven"),
    [
        (progress(), True),
        (progress(sequence=10), False),
        (progress(timestamp=6), False),
        (progress(epoch=1), False),
        (progress(producer_id=8), False),
    ],
)
def test_a_producer_that_is_not_exactly_as_it_was_counts(other: ProducerProgress, proven: bool) -> None:
    assert only(other) is proven


def test_a_log_that_is_shorter_or_may_have_seen_the_sequence_go_round_proves_nothing_by_it() -> None:
    assert [only(progress(), end=end) for end in (9, 10, 10 + MOST_SINCE - 1, 10 + MOST_SINCE)] == [False, True, True, False]


def test_a_log_in_which_nothing_was_appended_needs_no_writer_with_transactions_and_one_that_has_more_does() -> None:
    assert [only(progress(), transactional=(), end=end) for end in (10, 11)] == [True, False]
    assert [only(transactional=(), end=end) for end in (10, 11)] == [True, False], "when leaders have forgotten who loaded it"
    assert not only(progress(), transactional=(), end=10, loaded={}), "of an older release"
    assert only(loaded={}), "an application that was never restored"


def test_a_repartition_topic_needs_no_writer_and_has_none_without_transactions() -> None:
    def found(*other: ProducerProgress) -> bool:
        return bool(not_proven({OTHER: Writers(transactional=(), other=other)}, {OTHER: 3}, {TP: LOADED}, state=[TP]))

    assert (found(), found(progress())) == (False, True), "the record is of another partition"


@pytest.mark.parametrize(
    ("cluster", "ids", "counts"),
    [("c", {TP.topic: "id"}, True), ("d", {TP.topic: "id"}, False), ("c", {TP.topic: "anew"}, False), ("c", {}, False)],
)
def test_a_record_counts_for_its_topic_on_its_cluster(cluster: str, ids: dict[str, str], counts: bool) -> None:
    assert loaded_by([ENTRY], cluster, ids) == ({TP: LOADED} if counts else {})


def test_of_several_records_the_newest_counts_for_each_partition() -> None:
    """A later restore has filled one partition of a topic that an earlier one had made."""
    other = LoadedPartition(partition=1, end=4, producers=())
    whole = replace(ENTRY, topics=(LoadedTopic(topic=TP.topic, topic_id="id", partitions=(replace(LOADED, end=3), other)),))
    assert loaded_by([ENTRY, whole], "c", {TP.topic: "id"}) == {TP: LOADED, OTHER: other}


def test_only_what_still_ends_where_it_was_proven_is_recorded_and_only_of_topics_of_this_restore() -> None:
    expected, mine = {TP: 10, OTHER: 4}, {TP.topic: {"id", "before"}}

    def recorded(end: int = 10, topic_id: str = "id") -> tuple[LoadedTopic, ...]:
        return loaded_topics(expected, {TP: ((progress(),), end), OTHER: ((), 5)}, {TP.topic: topic_id}, mine)

    assert recorded() == ENTRY.topics
    assert recorded(end=11) == (), "somebody has written since it was compared"
    assert recorded(topic_id="another") == ()
    assert loaded_topics(expected, {TP: ((), 10), OTHER: ((), 4)}, {}, mine) == (), "a topic that is gone"


def test_an_entry_of_ten_thousand_partitions_and_of_far_too_many_producers_fits_into_a_log() -> None:
    largest = progress(2**63 - 1, 32_767, WRAPS - 1, 2**62)

    def entry(partitions: int, each: int) -> LoadedEntry:
        expected = {TopicPartition(TP.topic, number): 2**62 for number in range(partitions)}
        found = dict.fromkeys(expected, ((largest,) * each, 2**62))
        return replace(ENTRY, topics=loaded_topics(expected, found, {TP.topic: "id"}, {TP.topic: {"id"}}))

    assert len(codec.dumps(entry(10_000, 1))) < MOST_BYTES_OF_ENTRY / 8
    bounded = entry(30_000, 5)
    assert 0 < len(bounded.topics[0].partitions) < 30_000
    assert len(codec.dumps(bounded)) < MOST_BYTES_OF_ENTRY
