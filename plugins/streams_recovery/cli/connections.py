"""Connections without Airflow: the same ``AIRFLOW_CONN_<ID>`` variables that Airflow reads, as JSON or as URI."""

from __future__ import annotations

from collections.abc import Mapping

from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.escaping import logger
from streams_recovery.core.stored_connection import StoredConnection, ignored_text
from streams_recovery.engine.master import master_of
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.stored_connection import kafka_connection
from streams_recovery.storage.credentials import StorageCredentials

LOGGER = logger("streams_recovery.cli.connections")


class EnvironmentConnections:
    """Connections by id from environment variables: ``{"conn_type": "kafka", "extra": {...}}``, or ``kafka://host:9092?...``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def kafka(self, connection_id: str) -> KafkaConnection:
        return kafka_connection(self._read(connection_id), where=f"connection {connection_id}")

    def storage(self, connection_id: str | None) -> StorageCredentials | None:
        """See ConnectionSource. A key as in Airflow's connections of type ``aws``."""
        if connection_id is None:
            return None
        return StorageCredentials.from_stored(self._read(connection_id), where=f"connection {connection_id}")

    def secret(self, connection_id: str) -> str | None:
        return self._read(connection_id).password

    def spark_master(self, connection_id: str) -> str:
        """See ConnectionSource. Of the extra only a deploy mode is understood, and that is always ``client``."""
        found = self._read(connection_id)
        if ignored := {key for key, value in found.extra.items() if (key, value) != ("deploy-mode", "client")}:
            LOGGER.warning("%s", ignored_text(f"connection {connection_id}", ignored))
        return master_of(connection_id, found.conn_type, found.host, found.port)

    def _read(self, connection_id: str) -> StoredConnection:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        text = self._environment.get(variable)
        if text is None:
            raise NotFound(
                f"connection {connection_id} is not defined",
                next_step=f"set {variable} to the connection as JSON or URI",
                variable=variable,
            )
        try:
            return StoredConnection.parse(text)
        except ValueError as error:
            # Not the text itself: it may hold a password.
            raise ConfigInvalid(
                f"{variable} cannot be read: {error}", next_step="write the connection as Airflow's JSON or URI", variable=variable
            ) from None
