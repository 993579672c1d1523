"""Committed offsets on a real broker: metadata byte for byte, all or nothing, transactions that are not decided."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition
from kafka import KafkaAdminClient

from streams_recovery.core.errors import BrokerUnavailable, NotFound, OffsetsUnstable, Refused
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from tests.support.kafka.committed_offsets import STREAM_TIME, committed, everything, open_transaction

pytestmark = pytest.mark.kafka


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
