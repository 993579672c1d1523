"""Offsets as these tests write them."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups

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
