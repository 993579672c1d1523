"""Transactions that hang: open on a partition, and ended by their coordinator, which does not have that partition in them."""

from __future__ import annotations

import shlex
import subprocess
import uuid
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaProducer
from kafka.structs import TopicPartition as PurePartition

from embedded.java import QUICK, find_java
from streams_recovery.core.kafka_types import TopicPartition
from tests.support.programs.kafka_tools import class_path

# A leader asks the coordinator whether it has the partition (KIP-890); before Kafka 3.6 a record that came late was enough.
_ASKS: Final = "transaction.partition.verification.enable"


def hang(bootstrap: str, tp: TopicPartition, known: TopicPartition) -> str:
    """Leave a transaction open on ``tp``, with one record, that is committed on ``known``, with another one. Returns its transactional id. Only for a broker
    that nobody else uses: it asks nobody any more.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    setting = ConfigEntry(_ASKS, "false", incremental_operation=AlterConfigOpType.SET)
    for changed in admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[setting])]).values():
        changed.result(30)
    name = f"hangs-{uuid.uuid4().hex[:8]}"
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(known.topic, b"v", key=b"k", partition=known.partition).get(30)
        # It takes the partition for one that its coordinator has been told of.
        producer._transaction_manager._partitions_in_transaction.add(PurePartition(*tp))
        producer.send(tp.topic, b"v", key=b"k", partition=tp.partition).get(30)
        producer.commit_transaction()
    finally:
        producer.close(timeout=10)
    return name


def run_kafka_transactions(*commands: str) -> None:
    """Run commands of ``kafka-transactions.sh``, as somebody pastes them into a shell, with Kafka's own program."""
    assert commands
    java = [str(find_java()), *QUICK, "-cp", ":".join(map(str, class_path())), "org.apache.kafka.tools.TransactionsCommand"]
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "kafka-transactions.sh", command
        done = subprocess.run([*java, *arguments], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
