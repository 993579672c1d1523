"""Connections from Airflow: its database, its secrets backends, its environment variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError
from airflow.sdk.log import mask_secret

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import NotFound
from streams_recovery.core.masking import tell_secrets
from streams_recovery.core.repository.layout import Backend
from streams_recovery.engine.master import master_of
from streams_recovery.kafka.connection import KafkaConnection, kafka_connection
from streams_recovery.storage.backends import credentials_in
from streams_recovery.storage.credentials import StorageCredentials

if TYPE_CHECKING:
    from airflow.sdk import Connection


# Also tokens that a client asks for, and what comes from files.
tell_secrets(mask_secret)


class AirflowConnections:
    """See ConnectionSource. Registers every secret it hands out with Airflow's log masking: values from ``extra`` are not masked by themselves."""

    def kafka(self, connection_id: str) -> KafkaConnection:
        """A connection of type ``kafka``: librdkafka's properties are its extra."""
        found = kafka_connection(self._stored(connection_id), where=f"connection {connection_id}")
        for secret in found.secrets().values():
            mask_secret(secret)
        return found

    def storage(self, connection_id: str | None, backend: Backend) -> StorageCredentials | None:
        """A connection of the backend's type. One without a key leaves it to the machine's own identity."""
        if connection_id is None:
            return None
        found = credentials_in(self._stored(connection_id), backend, where=f"connection {connection_id}")
        for secret in found.secrets if found else ():
            mask_secret(secret)
        return found

    def secret(self, connection_id: str) -> str | None:
        """The password of a connection of any type."""
        found = self._stored(connection_id).password
        if found:
            mask_secret(found)
        return found

    def spark_master(self, connection_id: str) -> str:
        found = self.get(connection_id)
        return master_of(connection_id, found.conn_type, found.host, found.port)

    def get(self, connection_id: str) -> Connection:
        """The connection itself. Raises ``NotFound``."""
        try:
            return BaseHook.get_connection(connection_id)
        except (AirflowNotFoundException, AirflowRuntimeError) as error:
            raise NotFound(
                f"the Airflow connection {connection_id} does not exist",
                next_step="add it to Airflow; docs/airflow.md lists what it needs",
                connection=connection_id,
            ) from error

    def _stored(self, connection_id: str) -> StoredConnection:
        found = self.get(connection_id)
        return StoredConnection(
            conn_type=found.conn_type,
            host=found.host,
            port=found.port,
            login=found.login,
            password=found.password,
            extra=found.extra_dejson,
        )
