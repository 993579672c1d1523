"""Transactions that hang: open on a partition, and ended by their coordinator, which does not have that partition in them."""

from __future__ import annotations

import uuid
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaProducer
from kafka.structs import TopicPartition as PurePartition

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.connection import KafkaConnection

# A leader asks the coordinator whether it has the partition (KIP-890); before Kafka 3.6 a record that came late was enough.
_ASKS: Final = "transaction.partition.verification.enable"


def hang(broker: str | KafkaConnection, tp: TopicPartition, known: TopicPartition, *, commit: bool = True) -> str:
    """Leave a transaction open on ``tp``, with one record, that is committed on ``known``, with another one, or aborted there. Returns its transactional
    id. Only for a broker that nobody else uses: it asks nobody any more.
    """
    connection = broker if isinstance(broker, KafkaConnection) else KafkaConnection(bootstrap_servers=broker, properties={})
    admin = AdminClient(connection.client_config())
    setting = ConfigEntry(_ASKS, "false", incremental_operation=AlterConfigOpType.SET)
    for changed in admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[setting])]).values():
        changed.result(30)
    name = f"hangs-{uuid.uuid4().hex[:8]}"
    producer = KafkaProducer(**connection.admin_config(), transactional_id=name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(known.topic, b"v", key=b"k", partition=known.partition).get(30)
        # It takes the partition for one that its coordinator has been told of.
        producer._transaction_manager._partitions_in_transaction.add(PurePartition(*tp))
        producer.send(tp.topic, b"v", key=b"k", partition=tp.partition).get(30)
        producer.commit_transaction() if commit else producer.abort_transaction()
    finally:
        producer.close(timeout=10)
    return name
