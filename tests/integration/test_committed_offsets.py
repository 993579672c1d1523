"""Offsets of groups on a real broker: metadata byte for byte, all or nothing, undecided transactions; and members: who is named, evicted, and back."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from kafka import KafkaAdminClient

from streams_recovery.core.errors import ApplicationRunning, BrokerUnavailable, NotFound, OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import CommittedOffset, GroupMember, TopicPartition
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.offset_commit import replace_offsets
from tests.support.kafka.streams_member import StreamsMember

pytestmark = pytest.mark.kafka

MEMBER = """
import sys
from confluent_kafka import Consumer
bootstrap, group_id, topic, instance = sys.argv[1:]
settings = {"group.instance.id": instance} if instance else {}
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "client.id": "it-member", **settings})
consumer.subscribe([topic])
while not consumer.assignment():
    consumer.poll(0.1)
print("joined", flush=True)
while True:
    consumer.poll(1)
"""


@pytest.fixture(scope="module")
def groups(connection: KafkaConnection) -> Iterator[ConsumerGroups]:
    with ConsumerGroups(connection, timeout=20) as opened:
        yield opened


@pytest.fixture
def topic(connection: KafkaConnection) -> Iterator[str]:
    name = f"it.groups_{uuid.uuid4().hex[:8]}"
    with KafkaCluster(connection, timeout=20) as cluster:
        cluster.create_topic(name, partitions=3, replication_factor=1, config={})
        yield name
        cluster.delete_topics([name])


@pytest.fixture
def group_id(groups: ConsumerGroups, topic: str) -> Iterator[str]:
    name = topic.replace("it.groups_", "it-group.")
    yield name
    groups.wait_empty(name, 30, settle=0)
    groups.delete(name)
    assert groups.describe(name).kind == "absent"


@pytest.fixture
def join(connection: KafkaConnection, topic: str, group_id: str) -> Iterator[Callable[..., Consumer]]:
    joined: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        base: dict[str, object] = {
            "group.id": group_id,
            "client.id": "it-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        consumer = Consumer(connection.client_config(**{**base, **settings}))
        joined.append(consumer)
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while not consumer.assignment():
            assert time.monotonic() < deadline
            consumer.poll(0.1)
        return consumer

    yield make
    for consumer in joined:
        consumer.close()


@pytest.fixture
def crash(bootstrap: str, topic: str, group_id: str) -> Callable[..., None]:
    """A member whose process was killed: nothing leaves the group for it, and its session lasts 45 s."""

    def make(group_instance_id: str = "") -> None:
        command = [sys.executable, "-c", MEMBER, bootstrap, group_id, topic, group_instance_id]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"joined\n"
            finally:
                process.kill()

    return make


# What Kafka Streams 4.3 writes: version, stream time, empty processor metadata. 12 characters of base64.
STREAM_TIME = "AgAAAZ/IhLhk"


def committed(offset: int, metadata: str = "") -> CommittedOffset:
    """A committed offset without a leader epoch."""
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=None)


def open_transaction(connection: KafkaConnection, topic: str, consumer: Consumer, offset: int) -> Producer:
    """A transaction that has sent an offset for partition 0 and is not decided."""
    producer = Producer(connection.client_config(**{"transactional.id": f"txn-{topic}"}))
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=2)
    producer.send_offsets_to_transaction([ClientPartition(topic, 0, offset)], consumer.consumer_group_metadata(), 20)
    return producer


def everything(groups: ConsumerGroups, topic: str, group_id: str) -> dict[int, CommittedOffset | None]:
    """What the group has committed, by partition."""
    partitions = [TopicPartition(topic, number) for number in range(3)]
    return {tp.partition: found for tp, found in groups.committed(group_id, partitions).items()}


@pytest.mark.fault("F43")
@pytest.mark.parametrize("wanted", [committed(1, STREAM_TIME), None])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_joins_right_before_the_write_keeps_its_offsets(
    connection: KafkaConnection,
    groups: ConsumerGroups,
    topic: str,
    group_id: str,
    join: Callable[..., Consumer],
    protocol: str,
    wanted: CommittedOffset | None,
) -> None:
    """The group was seen empty; the member is there when the offsets arrive."""
    consumer = join(**{"group.protocol": protocol})
    consumer.commit(offsets=[ClientPartition(topic, 0, 5), ClientPartition(topic, 1, 6)], asynchronous=False)
    before = everything(groups, topic, group_id)
    refused = "UnknownMemberIdError" if wanted else "(GroupSubscribedToTopicError|NonEmptyGroupError)"
    with Clients(connection, timeout=20) as clients, pytest.raises(ApplicationRunning, match=f"it-member.*{refused}.*as they were before"):
        replace_offsets(clients, group_id, {TopicPartition(topic, 0): wanted, TopicPartition(topic, 1): wanted}, absent=False)
    assert everything(groups, topic, group_id) == before


@pytest.mark.fault("F44")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_member_is_named_and_its_offsets_are_not_touched(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer], protocol: str
) -> None:
    consumer = join(**{"group.protocol": protocol})
    consumer.commit(offsets=[ClientPartition(topic, 0, 5)], asynchronous=False)
    described = groups.describe(group_id)
    assert (described.kind, described.state, described.empty) == (protocol, "Stable", False)
    assert [member.client_id for member in described.members] == ["it-member"]
    with pytest.raises(ApplicationRunning, match=r"it-member.*must be empty") as caught:
        groups.set_offsets(group_id, {TopicPartition(topic, 0): committed(1, STREAM_TIME)})
    assert caught.value.facts["members"] == [described.members[0].member_id]
    with pytest.raises(ApplicationRunning, match="it-member"):
        groups.delete(group_id)
    with pytest.raises(ApplicationRunning, match=r"within 0\.5 s"):
        groups.wait_empty(group_id, 0.5)
    found = groups.committed(group_id, [TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    assert found is not None
    assert found.offset == 5


@pytest.mark.deep
@pytest.mark.fault("F44")
def test_members_that_are_gone_are_evicted_before_their_session_ends(
    groups: ConsumerGroups, topic: str, group_id: str, crash: Callable[..., None]
) -> None:
    crash()
    described = groups.describe(group_id)
    assert [member.client_id for member in described.members] == ["it-member"]
    groups.evict(group_id, described.members)
    # A session lasts 45 s.
    assert groups.wait_empty(group_id, 10).empty
    groups.evict(group_id, described.members)
    groups.set_offsets(group_id, {TopicPartition(topic, 1): committed(9, STREAM_TIME)})


@pytest.mark.fault("F44")
def test_a_static_member_is_evicted_too(groups: ConsumerGroups, group_id: str, crash: Callable[..., None]) -> None:
    crash("instance-1")
    described = groups.describe(group_id)
    assert [member.group_instance_id for member in described.members] == ["instance-1"]
    groups.evict(group_id, described.members)
    assert groups.wait_empty(group_id, 10, settle=0.5).empty


@pytest.mark.deep
def test_an_evicted_member_that_is_alive_comes_back_and_is_seen(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    consumer = join(**{"session.timeout.ms": 6000, "heartbeat.interval.ms": 500})
    stopped = threading.Event()

    def live() -> None:
        while not stopped.is_set():
            consumer.poll(0.05)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        groups.evict(group_id, groups.describe(group_id).members)
        with pytest.raises(ApplicationRunning, match="it-member"):
            groups.wait_empty(group_id, 4, settle=2)
    finally:
        stopped.set()
        thread.join()


def test_members_of_the_new_protocol_cannot_be_evicted(
    groups: ConsumerGroups, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    join(**{"group.protocol": "consumer"})
    with pytest.raises(Refused, match="consumer protocol"):
        groups.evict(group_id, groups.describe(group_id).members)


@pytest.mark.fault("F52")
def test_a_group_of_the_streams_protocol_is_taken_for_what_it_is(groups: ConsumerGroups, bootstrap: str, topic: str, group_id: str) -> None:
    """Clients that do not know the protocol are told that a running one is dead and has no members."""
    partition = TopicPartition(topic, 0)
    member = StreamsMember(bootstrap, group_id, topic)
    member.join()
    running = groups.describe(group_id)
    assert (running.kind, running.empty) == ("streams", False)
    assert running.state not in ("Empty", "Dead")
    (named,) = running.members
    assert (named.client_id, named.group_instance_id) == ("it-member", None)
    assert groups.input_topics(group_id) == {topic}
    with pytest.raises(ApplicationRunning, match="it-member on ") as caught:
        groups.set_offsets(group_id, {partition: committed(1)})
    assert caught.value.facts["members"] == [named.member_id]
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.set_offsets(group_id, {partition: committed(1)})
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.delete(group_id)
    with pytest.raises(ApplicationRunning, match="streams protocol"):
        groups.wait_empty(group_id, 0.5)
    with pytest.raises(Refused, match="streams protocol"):
        groups.evict(group_id, [GroupMember(member_id="m", client_id="c", host="h", group_instance_id=None)])
    member.leave()
    stopped = groups.wait_empty(group_id, 10, settle=0.5)
    assert (stopped.kind, stopped.state, stopped.empty) == ("streams", "Empty", True)
    groups.set_offsets(group_id, {partition: committed(4, STREAM_TIME)})
    assert groups.committed(group_id, [partition]) == {partition: committed(4, STREAM_TIME)}


def test_groups_whose_names_overlap_are_told_apart(groups: ConsumerGroups, topic: str, group_id: str) -> None:
    longer = f"{group_id}-eu"
    tp = TopicPartition(topic, 0)
    groups.set_offsets(group_id, {tp: committed(1)})
    groups.set_offsets(longer, {tp: committed(2)})
    try:
        groups.delete(group_id)
        assert groups.describe(group_id).kind == "absent"
        assert groups.committed(longer, [tp]) == {tp: committed(2)}
    finally:
        groups.delete(longer)


@pytest.mark.parametrize(
    "metadata",
    [STREAM_TIME, "", "x", "äöü €", 'with "quotes" and \\ and\ttab', "a" * 4000],
    ids=["stream time of 12 characters", "empty", "one", "not ascii", "quotes", "long"],
)
def test_offsets_are_stored_with_their_metadata_byte_for_byte(
    bootstrap: str, groups: ConsumerGroups, topic: str, group_id: str, metadata: str
) -> None:
    offsets = {TopicPartition(topic, 0): committed(17, metadata), TopicPartition(topic, 2): committed(0, metadata)}
    groups.set_offsets(group_id, offsets)

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    raw = client.list_group_offsets(group_id)[group_id]
    client.close()
    assert {(tp.partition, found.offset, found.metadata.encode()) for tp, found in raw.items()} == {
        (0, 17, metadata.encode()),
        (2, 0, metadata.encode()),
    }
    assert groups.committed(group_id, [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 2)]) == {
        TopicPartition(topic, 0): committed(17, metadata),
        TopicPartition(topic, 1): None,
        TopicPartition(topic, 2): committed(0, metadata),
    }
    assert groups.committed_partitions(group_id) == (TopicPartition(topic, 0), TopicPartition(topic, 2))


@pytest.mark.parametrize("metadata", [STREAM_TIME, "x", "b" * 24, "a" * 64])
def test_metadata_is_read_without_the_bytes_behind_it(groups: ConsumerGroups, topic: str, group_id: str, metadata: str) -> None:
    """confluent-kafka reads past the end of metadata, into whatever was in that memory before: seen in most answers of a busy process."""
    partitions = [TopicPartition(topic, number) for number in range(3)]
    groups.set_offsets(group_id, {partition: committed(1, metadata) for partition in partitions})
    for _ in range(40):
        assert groups.committed(group_id, partitions) == {partition: committed(1, metadata) for partition in partitions}


def test_the_old_log_s_leader_epoch_is_not_restored(groups: ConsumerGroups, topic: str, group_id: str) -> None:
    tp = TopicPartition(topic, 0)
    groups.set_offsets(group_id, {tp: CommittedOffset(offset=3, metadata=STREAM_TIME, leader_epoch=41)})
    assert groups.committed(group_id, [tp]) == {tp: committed(3, STREAM_TIME)}


def test_a_group_that_nobody_knows(groups: ConsumerGroups, topic: str) -> None:
    absent = f"{topic}-nobody"
    described = groups.describe(absent)
    assert (described.kind, described.members, described.empty) == ("absent", (), True)
    assert groups.committed(absent, [TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): None}
    assert groups.committed_partitions(absent) == ()
    groups.delete(absent)
    assert groups.wait_empty(absent, 5, settle=0).kind == "absent"


def test_nothing_to_ask_or_to_set_is_not_a_success(groups: ConsumerGroups, topic: str) -> None:
    with pytest.raises(Refused):
        groups.committed(f"{topic}-nobody", [])
    with pytest.raises(Refused):
        groups.set_offsets(f"{topic}-nobody", {})


def test_offsets_of_a_topic_that_is_gone_are_named(groups: ConsumerGroups, topic: str, group_id: str) -> None:
    offsets = {
        TopicPartition(topic, 0): committed(1),
        TopicPartition(f"{topic}-gone", 0): committed(1),
        TopicPartition(topic, 7): committed(1),
    }
    with pytest.raises(NotFound) as caught:
        groups.set_offsets(group_id, offsets)
    assert (caught.value.facts["offsets"], caught.value.facts["left"]) == (3, {})
    assert caught.value.facts["refused"].keys() == {f"{topic}-7", f"{topic}-gone-0"}
    assert groups.describe(group_id).kind == "absent"


@pytest.mark.fault("F43")
@pytest.mark.parametrize("bad", ["a partition that is not there", "metadata the broker does not take"])
def test_when_one_offset_is_refused_all_are_as_they_were(groups: ConsumerGroups, topic: str, group_id: str, bad: str) -> None:
    groups.set_offsets(group_id, {TopicPartition(topic, 0): committed(17, STREAM_TIME), TopicPartition(topic, 1): committed(3)})
    before = everything(groups, topic, group_id)
    wanted: dict[TopicPartition, CommittedOffset | None] = {TopicPartition(topic, 0): committed(18), TopicPartition(topic, 1): committed(4)}
    if bad == "a partition that is not there":
        wanted |= {TopicPartition(topic, 2): committed(5, STREAM_TIME), TopicPartition(topic, 9): committed(1)}
        refused = {f"{topic}-9": "UnknownTopicOrPartitionError"}
    else:
        wanted |= {TopicPartition(topic, 2): committed(5, "x" * 4097)}
        refused = {f"{topic}-2": "OffsetMetadataTooLargeError"}
    with pytest.raises(Refused) as caught:
        groups.set_offsets(group_id, wanted)
    assert caught.value.facts["refused"] == refused
    assert (caught.value.facts["offsets"], caught.value.facts["left"]) == (len(wanted), {})
    assert everything(groups, topic, group_id) == before


def test_offsets_are_deleted_and_set_in_one_go(groups: ConsumerGroups, topic: str, group_id: str) -> None:
    groups.set_offsets(group_id, {TopicPartition(topic, 0): committed(17, STREAM_TIME), TopicPartition(topic, 1): committed(3)})
    groups.set_offsets(group_id, {TopicPartition(topic, 0): None, TopicPartition(topic, 1): committed(4), TopicPartition(topic, 2): None})
    assert everything(groups, topic, group_id) == {0: None, 1: committed(4), 2: None}


def test_offsets_in_an_open_transaction_are_not_read(
    groups: ConsumerGroups, connection: KafkaConnection, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    partitions = [TopicPartition(topic, number) for number in range(3)]
    consumer = join()
    consumer.commit(offsets=[ClientPartition(topic, 0, 5), ClientPartition(topic, 1, 6)], asynchronous=False)
    producer = open_transaction(connection, topic, consumer, 50)

    with ConsumerGroups(connection, timeout=1.0) as hasty, pytest.raises(OffsetsUnstable, match=f"{topic}-0") as caught:
        hasty.committed(group_id, partitions)
    assert caught.value.facts["partitions"] == [f"{topic}-0"]

    producer.commit_transaction(20)
    found = groups.committed(group_id, partitions)
    assert [item.offset if item else None for item in found.values()] == [50, 6, None]


def test_an_open_transaction_that_could_overwrite_them_forbids_setting_offsets(
    groups: ConsumerGroups, connection: KafkaConnection, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    consumer = join()
    consumer.commit(offsets=[ClientPartition(topic, 0, 5)], asynchronous=False)
    producer = open_transaction(connection, topic, consumer, 50)
    consumer.close()
    groups.wait_empty(group_id, 30, settle=0)
    with ConsumerGroups(connection, timeout=1.0) as hasty, pytest.raises(OffsetsUnstable, match=f"{topic}-0"):
        hasty.set_offsets(group_id, {TopicPartition(topic, 0): committed(7)})
    producer.abort_transaction(20)
    groups.set_offsets(group_id, {TopicPartition(topic, 0): committed(7)})


def test_a_snapshot_waits_until_a_transaction_is_decided(
    groups: ConsumerGroups, connection: KafkaConnection, topic: str, group_id: str, join: Callable[..., Consumer]
) -> None:
    consumer = join()
    producer = open_transaction(connection, topic, consumer, 50)
    timer = threading.Timer(1.0, producer.commit_transaction, args=[20])
    timer.start()
    try:
        found = groups.committed(group_id, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
    finally:
        timer.join()
    assert [item.offset if item else None for item in found.values()] == [50, None]


@pytest.mark.deep
def test_a_broker_that_is_down_is_said_in_one_sentence(topic: str) -> None:
    nobody = KafkaConnection.from_extra({"bootstrap.servers": "127.0.0.1:1"}, where="nobody")
    verbs: tuple[Callable[[ConsumerGroups], object], ...] = (
        lambda groups: groups.describe("g"),
        lambda groups: groups.committed("g", [TopicPartition(topic, 0)]),
        lambda groups: groups.set_offsets("g", {TopicPartition(topic, 0): committed(1)}),
        lambda groups: groups.delete("g"),
    )
    for verb in verbs:
        with ConsumerGroups(nobody, timeout=1.0) as groups, pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1 within 1 s"):
            verb(groups)


@pytest.mark.deep
def test_offsets_on_topics_that_were_just_deleted_are_removed(
    connection: KafkaConnection, groups: ConsumerGroups, topic: str, group_id: str
) -> None:
    """A broker removes them by itself, some time after the topic, and until then refuses to remove them."""
    gone = [TopicPartition(f"{topic}.{number}", partition) for number in range(10) for partition in range(10)]
    names = sorted({tp.topic for tp in gone})
    with KafkaCluster(connection, timeout=20) as cluster:
        for name in names:
            cluster.create_topic(name, partitions=10, replication_factor=1, config={})
        groups.set_offsets(group_id, dict.fromkeys(gone, committed(7, STREAM_TIME)))
        cluster.delete_topics(names)
        groups.set_offsets(group_id, {**dict.fromkeys(gone), TopicPartition(topic, 0): committed(3)})
    assert groups.committed_partitions(group_id) == (TopicPartition(topic, 0),)
    assert set(groups.committed(group_id, gone).values()) == {None}
