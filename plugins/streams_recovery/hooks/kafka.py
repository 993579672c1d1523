"""The hook behind the form of connections of type ``kafka``."""

from __future__ import annotations

from airflow.sdk import BaseHook

from streams_recovery.core.errors import RecoveryError
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection


class KafkaHook(BaseHook):
    """A Kafka cluster that an Airflow connection describes."""

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    conn_type = "kafka"
    hook_name = "Apache Kafka"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> KafkaConnection:
        """The connection, read and checked. Nothing is opened yet. Raises ``NotFound`` and ``ConfigInvalid``."""
        return AirflowConnections().kafka(self.kafka_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Return True if the cluster answers, and what it says: for the button of the form."""
        try:
            with KafkaCluster(self.get_conn()) as cluster:
                return True, f"the cluster answers: {len(cluster.topic_names())} topics"
        except RecoveryError as error:
            return False, str(error)
