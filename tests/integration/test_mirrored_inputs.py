"""Committed offsets found in what a real MirrorMaker 2 has carried to another cluster, by a savepoint and by the old cluster.

The inputs have transactions, some of them aborted, and a log cleaner. One mirror is started anew while it is on its way, one is killed and repeats records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core import codec
from streams_recovery.core.errors import NotFound, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.offsets.mirrored_input import (
    Doubt,
    ExactPlace,
    InputPlace,
    KnownFrom,
    SameOffset,
    UnprovenPlace,
    check_exact,
)
from streams_recovery.core.repository.manifest import Gap, Manifest
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operations.offsets import mirrored_inputs
from streams_recovery.operations.offsets.mirrored_inputs import ArchivedInputs, Assumed, ReachedCluster, find_places
from tests.support.applications.savepoint_steps import published
from tests.support.applications.small import Small, small_application, surviving
from tests.support.applications.topic_records import await_markers, commit, delete_below, produce
from tests.support.kafka.cleaner import EAGER, await_cleaner
from tests.support.kafka.records import connect, read
from tests.support.programs.mirror_maker import IDENTITY, Flow, start_mirror

pytestmark = pytest.mark.kafka

ALIAS = "primary"
# What makes a record unlike all others: repeated payloads have times of their own.
Row = tuple[bytes | None, int]


def rows(connection: KafkaConnection, cluster: KafkaCluster, tp: TopicPartition) -> dict[int, Row]:
    """All committed records of a partition by their offsets."""
    start, end = cluster.log_starts([tp])[tp], cluster.last_stable_offsets([tp])[tp]
    found = [batch.select(["offset", "value", "timestamp"]).to_pylist() for batch in read(connection, tp, start, end)]
    return {row["offset"]: (row["value"], row["timestamp"]) for batch in found for row in batch}


@dataclass
class Sites:
    """Two clusters, an application at the old one, and mirrors between them."""

    small: Small
    processes: Processes
    directory: Path
    target: ReachedCluster
    table: TopicPartition
    plain: TopicPartition
    killed: TopicPartition
    began: int
    # Where each record was in the old log, however much of that is gone by now.
    old: dict[TopicPartition, dict[Row, int]] = field(default_factory=dict)
    aborted: dict[TopicPartition, dict[Row, int]] = field(default_factory=dict)

    @property
    def source(self) -> ReachedCluster:
        return ReachedCluster(connection=self.small.recovery.connection, cluster=self.small.recovery.cluster)

    @property
    def orders(self) -> TopicPartition:
        return self.small.input

    def write(self, tp: TopicPartition, begin: int, count: int, *, keys: int = 1_000_000, size: int = 5, aborts: bool = True) -> None:
        """So many records in transactions of ``size``, every third of which is aborted. Some payloads are those of others."""
        producer = Producer({**self.source.connection.client_config(), "transactional.id": f"orders-{tp.topic}"})
        producer.init_transactions(30)
        for first in range(begin, begin + count, size):
            for commits in (False, True) if aborts and first // size % 3 == 0 else (True,):
                producer.begin_transaction()
                for number in range(first, first + size):
                    alike = number % 7 == 0
                    value = b"again" if alike else b"%s %d" % (b"order" if commits else b"aborted", number)
                    headers: list[tuple[str, str | bytes | None]] = [("n", b"" if number % 2 else b"x"), ("n", b"%d" % (number % 3))]
                    key = None if number % 11 == 0 and keys > 1_000 else b"k%d" % (number % keys)
                    stamp = self.began + number * 20 + (0 if commits else 1)
                    note = self._note(tp, (value, stamp), commits=commits)
                    producer.produce(tp.topic, value, key, tp.partition, timestamp=stamp, headers=headers, on_delivery=note)
                assert producer.flush(30) == 0
                producer.commit_transaction(30) if commits else producer.abort_transaction(30)
        await_markers(self.small.recovery, [tp])

    def _note(self, tp: TopicPartition, row: Row, *, commits: bool) -> Callable[[object, Message], None]:
        into = self.old if commits else self.aborted

        def delivered(_: object, message: Message) -> None:
            into.setdefault(tp, {})[row] = message.offset() or 0

        return delivered

    def name_of(self, tp: TopicPartition) -> TopicPartition:
        """The mirrored partition."""
        return TopicPartition(f"{ALIAS}.{tp.topic}", 0) if tp in (self.orders, self.table) else tp

    def there(self, tp: TopicPartition) -> dict[int, Row]:
        """All records of a partition at the target."""
        return rows(self.target.connection, self.target.cluster, tp)

    def await_carried(self, tp: TopicPartition, there: TopicPartition) -> None:
        """Until the newest record of the old log is at the target."""
        newest = max(self.old[tp], key=self.old[tp].__getitem__)

        def come() -> bool | None:
            for name in ("tidy", "raw"):
                self.processes.check(name)
            if there.topic not in self.target.cluster.topic_names():
                return None
            return newest in self.there(there).values() or None

        assert poll(come, seconds=180, interval=1), f"{there} does not get the records of {tp}"

    def right(self, tp: TopicPartition, place: InputPlace) -> bool:
        """True if everything in front of the offset is a copy of a record that was read, and everything behind it of one that was not. What the old log
        never gave to anybody is at neither side.
        """
        offset = place.offset
        assert offset is not None
        copies = [(at, self.old[tp][row]) for at, row in self.there(place.target).items() if row not in self.aborted.get(tp, {})]
        return all((old >= place.committed) == (at >= offset) for at, old in copies)

    def find(self, manifest: Manifest, tp: TopicPartition, committed: int, name: str, **how: object) -> InputPlace:
        archive = ArchivedInputs(repository=self.small.recovery.repository, manifest=manifest)
        wanted = {tp: CommittedOffset(offset=committed, metadata="")}
        (place,) = find_places(archive, wanted, {tp.topic: name}, self.target, **how)
        assert codec.loads(InputPlace, codec.dumps(place), where="a plan") == place
        return place


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    directory = tmp_path_factory.mktemp("sites")
    name = "orders-app"
    others = [TopicPartition(f"{name}.{other}", 0) for other in ("table", "plain", "killed")]
    with Processes(directory / "old") as first, Processes(directory / "new") as second, Processes(directory / "mirrors") as processes:
        old, new = (_broker(one, directory / side) for one, side in ((first, "old"), (second, "new")))
        inputs = {"inputs": [f"{name}.in", *(tp.topic for tp in others)]}
        with small_application(old, directory, name=name, topics=inputs) as small, KafkaCluster(connect(new)) as cluster:
            target = ReachedCluster(connection=connect(new), cluster=cluster)
            found = Sites(surviving(small), processes, directory, target, *others, time.time_ns() // 1_000_000)
            delete_below(small.recovery, small.input, 5)
            for tp in others:
                config = EAGER if tp == found.table else {"cleanup.policy": "delete"}
                small.recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config=config)
            yield found


def _broker(processes: Processes, directory: Path) -> str:
    port, controller = free_ports(2)
    return start_broker(processes, directory / "broker", port=port, controller_port=controller)


@dataclass
class Carried:
    """All inputs mirrored, and a savepoint from before the newest records."""

    sites: Sites
    savepoint: Manifest

    def committed(self, tp: TopicPartition) -> list[int]:
        """Offsets all over the archived log, its ends among them."""
        topic = self.savepoint.topic(tp.topic)
        assert topic is not None
        image = topic.partitions[0]
        return sorted({image.archived_from, image.end, *range(image.archived_from, image.end, 43)})


def _mirrors(sites: Sites) -> None:
    """One mirror as it should be, with names of its own, and one that reads whatever is there and has the names of the old cluster."""
    old, new = sites.source.connection.bootstrap_servers, sites.target.connection.bootstrap_servers
    tidy = Flow(
        source=(ALIAS, old),
        target=("dr", new),
        topics=f"{sites.orders.topic}|{sites.table.topic}",
        settings={f"{ALIAS}.consumer.isolation.level": "read_committed"},
    )
    raw = Flow(
        source=("raw", old),
        target=("dr", new),
        topics=f"{sites.plain.topic}|{sites.killed.topic}",
        settings={"replication.policy.class": IDENTITY},
    )
    start_mirror(sites.processes, "tidy", sites.directory, tidy)
    start_mirror(sites.processes, "raw", sites.directory, raw)


@pytest.fixture(scope="module")
def carried(sites: Sites) -> Carried:
    parts = [sites.orders, sites.table, sites.plain, sites.killed]

    def write(begin: int, count: int) -> None:
        for tp in parts:
            keys = 350 if tp == sites.table else 1_000_000
            sites.write(tp, begin, count, keys=keys, aborts=tp != sites.killed)

    def await_all() -> None:
        for tp in parts:
            sites.await_carried(tp, sites.name_of(tp))

    write(0, 300)
    _mirrors(sites)
    await_all()
    sites.processes.stop("tidy")
    # It has noted nothing yet of where it has come to.
    sites.processes.stop("raw", seconds=0)
    await_cleaner(sites.small.recovery)
    write(300, 150)
    commit(sites.small.recovery, dict.fromkeys(parts, 60))
    savepoint = published(sites.small)
    write(450, 100)
    _mirrors(sites)
    await_all()
    return Carried(sites, savepoint)


def places(carried: Carried, tp: TopicPartition, **how: object) -> list[InputPlace]:
    """What is found for offsets all over the log."""
    name = carried.sites.name_of(tp).topic
    return [carried.sites.find(carried.savepoint, tp, committed, name, **how) for committed in carried.committed(tp)]


def doubts(found: list[InputPlace]) -> list[Doubt]:
    """Why places are not proven."""
    return [one.place.doubt for one in found if isinstance(one.place, UnprovenPlace)]


def here(small: Small) -> ReachedCluster:
    """The cluster of the application, which stands for both: topics of other names are as good as topics of another cluster."""
    return ReachedCluster(connection=small.recovery.connection, cluster=small.recovery.cluster)


@pytest.fixture
def copy(small: Small) -> Iterator[TopicPartition]:
    """A topic with records of before, and then all of the application's input."""
    tp = TopicPartition(f"copy.{small.input.topic}", 0)
    cluster = here(small).cluster
    cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})
    yield tp
    cluster.delete_topics([tp.topic])


def carry(small: Small, tp: TopicPartition, *, older: int = 0) -> None:
    """Copy the input as a mirror does, behind ``older`` records that the input no longer has."""
    end = small.recovery.cluster.last_stable_offsets([small.input])[small.input]
    producer = Producer(small.recovery.connection.client_config())
    for number in range(older):
        producer.produce(tp.topic, b"older", b"%d" % number, 0, timestamp=1_000 + number)
    for row in [row for batch in read(small.recovery.connection, small.input, 0, end) for row in batch.to_pylist()]:
        producer.produce(tp.topic, row["value"], row["key"], 0, timestamp=row["timestamp"])
    assert producer.flush(30) == 0


def found_in(small: Small, manifest: Manifest, committed: int, there: TopicPartition, **how: object) -> InputPlace:
    archive = ArchivedInputs(repository=small.recovery.repository, manifest=manifest)
    wanted = {small.input: CommittedOffset(offset=committed, metadata="")}
    (place,) = find_places(archive, wanted, {small.input.topic: there.topic}, here(small), **how)
    return place


def test_all_there_is_of_a_small_input_is_looked_for(small: Small, copy: TopicPartition) -> None:
    manifest = published(surviving(small))
    carry(small, copy)
    for committed in range(6):
        place = found_in(small, manifest, committed, copy)
        assert isinstance(place.place, ExactPlace), place.words
        assert (place.offset, place.place.before, place.place.behind) == (committed, committed, 5 - committed)
    assert doubts([found_in(small, manifest, 6, copy)]) == [Doubt.NOTHING_KNOWN]
    unknown = replace(manifest, topics=tuple(one for one in manifest.topics if one.name != small.input.topic))
    with pytest.raises(NotFound, match="does not know"):
        found_in(small, unknown, 4, copy)


@pytest.mark.deep
def test_few_records_behind_others_are_no_proof(small: Small, copy: TopicPartition) -> None:
    manifest = published(surviving(small))
    carry(small, copy, older=7)
    for committed in range(6):
        place = found_in(small, manifest, committed, copy)
        assert doubts([place]) == [Doubt.SHORT]
        # Records of one millisecond cannot be told apart by time.
        assert 7 <= place.place.by_time <= 7 + committed


@pytest.mark.deep
def test_an_input_that_is_not_archived_is_known_from_the_old_cluster_as_long_as_it_is_the_same(small: Small, copy: TopicPartition) -> None:
    manifest = published(small)
    carry(small, copy)
    assert doubts([found_in(small, manifest, 4, copy)]) == [Doubt.NOTHING_KNOWN]
    place = found_in(small, manifest, 4, copy, old=here(small))
    assert (place.offset, place.exact, place.known_from) == (4, True, KnownFrom.OLD_CLUSTER)
    small.recovery.cluster.delete_topics([small.input.topic])
    small.recovery.cluster.create_topic(small.input.topic, partitions=1, replication_factor=1, config={})
    place = found_in(small, manifest, 4, copy, old=here(small))
    assert (doubts([place]), place.known_from) == ([Doubt.NOTHING_KNOWN], KnownFrom.SAVEPOINT)


@pytest.mark.deep
def test_windows_are_taken_from_several_segments_and_end_at_gaps(
    small: Small, copy: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrored_inputs, "BEFORE", 300)
    monkeypatch.setattr(mirrored_inputs, "BEHIND", 400)
    monkeypatch.setattr(mirrored_inputs, "_FIRST_SPAN", 50)
    produce(small.recovery, small.input, 3_500)
    manifest = published(surviving(small))
    topic = manifest.topic(small.input.topic)
    assert topic is not None
    edges = [file.last_offset + 1 for file in topic.partitions[0].files()]
    assert len(edges) > 3
    carry(small, copy, older=10)
    for committed in (0, 1, 299, 301, *edges[:-1], edges[0] + 150, 3_400, edges[-1]):
        for old in (None, here(small)):
            place = found_in(small, manifest, committed, copy, old=old)
            assert isinstance(place.place, ExactPlace), place.words
            assert (place.offset, place.place.before, place.place.behind) == (
                committed + 10,
                min(300, committed),
                min(400, 3_505 - committed),
            )
    image = topic.partitions[0]
    for gap, committed, before, behind in (
        ((2_000, 2_100), 2_150, 50, 400),
        ((2_000, 2_100), 1_950, 300, 50),
        ((2_000, 2_100), 2_100, 0, 400),
    ):
        holed = replace(topic, partitions=(replace(image, gaps=(Gap(start=gap[0], end=gap[1], reason="deleted"),)),))
        place = found_in(small, replace(manifest, topics=(holed,)), committed, copy)
        assert isinstance(place.place, ExactPlace), place.words
        assert (place.offset, place.place.before, place.place.behind) == (committed + 10, before, behind)
    holed = replace(topic, partitions=(replace(image, gaps=(Gap(start=2_000, end=2_100, reason="deleted"),)),))
    assert doubts([found_in(small, replace(manifest, topics=(holed,)), 2_050, copy)]) == [Doubt.NOTHING_KNOWN]


@pytest.mark.deep
@pytest.mark.parametrize("known_from", KnownFrom)
def test_each_offset_is_found_in_what_was_carried(carried: Carried, known_from: KnownFrom) -> None:
    sites, tp = carried.sites, carried.sites.orders
    old = sites.source if known_from is KnownFrom.OLD_CLUSTER else None
    found = places(carried, tp, old=old, assumed=Assumed(committed_only=frozenset({tp.topic})))
    assert len(found) > 10
    for place in found:
        assert place.exact, place.words
        assert place.known_from is known_from
        assert sites.right(tp, place), place.words


@pytest.mark.deep
def test_a_log_cleaner_on_both_sides_leaves_places_that_are_right(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.table
    assert len(rows(sites.source.connection, sites.source.cluster, tp)) < len(sites.old[tp]), "the cleaner has been there"
    found = places(carried, tp)
    exact = [place for place in found if place.exact]
    assert len(exact) >= len(found) // 2, [place.words for place in found]
    for place in exact:
        assert isinstance(place.place, ExactPlace)
        assert place.place.compacted
        assert sites.right(tp, place), place.words


@pytest.mark.deep
def test_aborted_records_that_were_carried_are_noticed(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.plain
    assert any(row in sites.aborted[tp] for row in sites.there(tp).values()), "this mirror reads whatever is there"
    found = places(carried, tp)
    assert {*doubts(found)} <= {Doubt.EXTRA, Doubt.BETWEEN, Doubt.REPEATED, Doubt.LOST}
    assert [place.words for place in found if place.exact] == []


@pytest.mark.deep
def test_records_that_a_killed_mirror_carried_twice_are_never_taken_for_others(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.killed
    there = list(sites.there(tp).values())
    assert len(there) > len(set(there)), "it has carried some again"
    found = places(carried, tp, assumed=Assumed(committed_only=frozenset({tp.topic})))
    assert Doubt.REPEATED in doubts(found)
    assert any(place.exact for place in found)
    for place in found:
        assert not place.exact or sites.right(tp, place), place.words


@pytest.mark.deep
def test_the_same_offsets_are_proven_by_samples_and_others_are_noticed(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.orders
    same = Assumed(same_offsets=frozenset({tp.topic}))
    # A cluster has the offsets of its own topics.
    linked = find_places(
        ArchivedInputs(repository=sites.small.recovery.repository, manifest=carried.savepoint),
        {tp: CommittedOffset(offset=200, metadata="")},
        {},
        sites.source,
        assumed=same,
    )[0]
    assert isinstance(linked.place, SameOffset)
    assert (linked.offset, linked.place.stretches) == (200, 4)
    assert linked.place.compared >= 150
    shifted = sites.find(carried.savepoint, tp, 200, sites.name_of(tp).topic, assumed=same)
    assert (doubts([shifted]), shifted.offset) == ([Doubt.DIFFERENT], None)


@pytest.mark.deep
def test_what_is_not_there_or_too_much_is_refused(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.orders
    with pytest.raises(NotFound, match="nowhere"):
        sites.find(carried.savepoint, tp, 60, "nowhere")
    with pytest.raises(Refused, match="at most 100 are"):
        sites.find(carried.savepoint, tp, 60, sites.name_of(tp).topic, most_read=100)
    two = f"two.{tp.topic}"
    sites.target.cluster.create_topic(two, partitions=2, replication_factor=1, config={})
    with pytest.raises(Refused, match=f"{two} has 2, {tp.topic} had 1"):
        sites.find(carried.savepoint, tp, 60, two)


@pytest.mark.deep
def test_a_topic_that_sets_its_own_timestamps_is_searched_without_them(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.orders
    own = TopicPartition(f"own.{tp.topic}", 0)
    sites.target.cluster.create_topic(own.topic, partitions=1, replication_factor=1, config={"message.timestamp.type": "LogAppendTime"})

    def copy(start: int, end: int) -> None:
        producer = Producer(sites.target.connection.client_config())
        for row in [row for batch in read(sites.source.connection, tp, start, end) for row in batch.to_pylist()]:
            headers = [(each["key"], each["value"]) for each in row["headers"]]
            producer.produce(own.topic, row["value"], row["key"], 0, headers=headers)
        assert producer.flush(30) == 0

    start, end = (ask([tp])[tp] for ask in (sites.source.cluster.log_starts, sites.source.cluster.last_stable_offsets))
    copy(start, carried.committed(tp)[-1])
    place = sites.find(carried.savepoint, tp, 250, own.topic)
    assert isinstance(place.place, ExactPlace)
    assert not place.place.timestamps
    assert place.offset == sum(offset < 250 for offset in sites.old[tp].values())
    copy(carried.committed(tp)[-1], end)
    # One of these is like a record of the archive but for its timestamp, which is not there to tell them apart.
    assert doubts([sites.find(carried.savepoint, tp, 250, own.topic)]) == [Doubt.REPEATED]


@pytest.mark.deep
def test_what_the_mirror_has_not_carried_yet_is_no_place(carried: Carried) -> None:
    sites, tp = carried.sites, carried.sites.orders
    there = sites.name_of(tp)
    sites.processes.stop("tidy")
    sites.write(tp, 600, 20)
    end = sites.source.cluster.last_stable_offsets([tp])[tp]
    place = sites.find(carried.savepoint, tp, end, there.topic, old=sites.source)
    assert isinstance(place.place, UnprovenPlace)
    assert (place.place.doubt, place.place.records) == (Doubt.NOT_CARRIED, 20)
    assert place.offset == sites.target.cluster.last_stable_offsets([there])[there]
    with pytest.raises(Refused, match="20 records that were read already have not been mirrored yet"):
        check_exact([place], allow_ahead=False)
    check_exact([place], allow_ahead=True)
