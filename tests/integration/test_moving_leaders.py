"""Reading and writing while leadership moves, on three brokers: nothing missing, nothing twice, nothing out of order."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from streams_recovery.core.errors import BrokerUnavailable, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.kafka.transactions import Transactions
from streams_recovery.kafka.writer import PartitionWriter, Producers
from tests.support.examples.rows import batch_of, rows_in
from tests.support.kafka.records import connect, read, write
from tests.support.kafka.three_brokers import ThreeBrokers

pytestmark = [pytest.mark.kafka, pytest.mark.deep, pytest.mark.timeout(1200)]

ROWS = 60_000
PORTIONS = 6
Disturbance = Callable[[ThreeBrokers, TopicPartition], object]


def rows_of(first: int, last: int) -> list[tuple[int, bytes, bytes, None]]:
    """Records of a kilobyte that no compression makes smaller: all of them are more than a client fetches ahead or sends at once."""
    return [(1 + number, b"%d" % number, random.Random(number).randbytes(1000), None) for number in range(first, last)]


def leader_killed(three: ThreeBrokers, tp: TopicPartition) -> None:
    three.kill(three.leader(tp))


def leader_stopped(three: ThreeBrokers, tp: TopicPartition) -> None:
    three.stop(three.leader(tp))


def leader_moved(three: ThreeBrokers, tp: TopicPartition) -> None:
    three.move(tp)


def controller_killed(three: ThreeBrokers, tp: TopicPartition) -> None:
    three.kill(three.controller())


def killed_five_times(three: ThreeBrokers, tp: TopicPartition) -> None:
    for _ in range(5):
        three.kill(three.leader(tp))
        three.whole()


DISTURBANCES: list[Disturbance] = [leader_moved, leader_stopped, leader_killed, controller_killed, killed_five_times]
disturbances = pytest.mark.parametrize("disturbance", DISTURBANCES, ids=lambda one: one.__name__)


@pytest.fixture
def connection(three: ThreeBrokers) -> KafkaConnection:
    return connect(three.bootstrap)


@pytest.fixture
def tp(connection: KafkaConnection, three: ThreeBrokers) -> Iterator[TopicPartition]:
    """The only partition of a topic with three copies."""
    name = f"moving-{uuid.uuid4().hex[:12]}"
    with KafkaCluster(connection) as cluster:
        # The records are old. A broker that is started again looks for what has expired after half a minute, which a slow machine needs for a test.
        cluster.create_topic(name, partitions=1, replication_factor=3, config={"retention.ms": "-1"})
    yield TopicPartition(name, 0)
    three.whole()
    with KafkaCluster(connection) as cluster:
        cluster.delete_topics([name])


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    """The block, with ``work`` done at the same time; its failure is the test's."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told below, in the test's own thread
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert failed == []


@pytest.mark.fault("F5")
@disturbances
def test_what_is_written_while_leadership_moves_is_there_once_and_in_order(
    three: ThreeBrokers, connection: KafkaConnection, tp: TopicPartition, disturbance: Disturbance
) -> None:
    before = three.leader(tp), three.controller()
    portion = ROWS // PORTIONS
    with PartitionWriter(Producers(connection), tp, expected_end=0) as writer:
        writer.write(batch_of(rows_of(0, portion)))
        with beside(lambda: disturbance(three, tp)):
            for number in range(1, PORTIONS - 1):
                writer.write(batch_of(rows_of(number * portion, (number + 1) * portion)))
        writer.write(batch_of(rows_of(ROWS - portion, ROWS)))
        assert writer.finish().rows == ROWS
    assert (three.leader(tp), three.controller()) != before, "nothing moved"
    three.whole()
    assert rows_in(read(connection, tp, 0, ROWS)) == rows_of(0, ROWS)


@pytest.mark.fault("F5")
def test_a_range_is_read_whose_leader_has_just_died(three: ThreeBrokers, connection: KafkaConnection, tp: TopicPartition) -> None:
    write(connection, tp, rows_of(0, 10))
    three.kill(three.leader(tp))
    assert rows_in(read(connection, tp, 0, 10)) == rows_of(0, 10)


@pytest.mark.fault("F5")
@disturbances
def test_what_is_read_while_leadership_moves_is_the_whole_range(
    three: ThreeBrokers, connection: KafkaConnection, tp: TopicPartition, disturbance: Disturbance
) -> None:
    write(connection, tp, rows_of(0, ROWS))
    before = three.leader(tp), three.controller()
    with RangeReader(connection, tp, 0, ROWS) as reader:
        batches = iter(reader)
        # What the client has fetched ahead is a small part; all else comes from whoever leads afterwards.
        found = [next(batches)]
        disturbance(three, tp)
        assert found[0].num_rows < ROWS / 2
        found += batches
    assert (three.leader(tp), three.controller()) != before, "nothing moved"
    assert rows_in(found) == rows_of(0, ROWS)


@pytest.mark.fault("F5")
def test_a_partition_that_nobody_leads_is_told_with_its_brokers_and_never_as_missing(
    three: ThreeBrokers, connection: KafkaConnection
) -> None:
    name = f"alone-{uuid.uuid4().hex[:12]}"
    alone = TopicPartition(name, 0)
    with KafkaCluster(connection, timeout=6) as cluster, Transactions(connection, timeout=6) as transactions:
        cluster.create_topic(name, partitions=1, replication_factor=1, config={})
        node = three.leader(alone)
        three.kill(node)
        try:
            for ask in (
                lambda: cluster.high_watermarks([alone]),
                lambda: cluster.log_starts([alone]),
                lambda: cluster.epoch_ends({alone: 0}),
                lambda: cluster.whole_logs({alone: (0, 1)}),
                lambda: transactions.transactional_writers([alone]),
            ):
                with pytest.raises(TransientError, match=rf"{alone} has no leader now; the replicas are on broker {node}") as caught:
                    poll_until_noticed(ask)
                assert caught.value.facts["partitions"] == {str(alone): [node]}
        finally:
            three.whole()
        assert cluster.high_watermarks([alone]) == {alone: 0}
        cluster.delete_topics([name])


def poll_until_noticed(ask: Callable[[], object]) -> None:
    """Ask until the controller has noticed that the broker is gone: until then it is a broker that does not answer."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(BrokerUnavailable):
            ask()
