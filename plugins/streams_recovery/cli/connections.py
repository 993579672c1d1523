"""Connections without Airflow: the same ``AIRFLOW_CONN_<ID>`` variables that Airflow reads, in their JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.engine.master import master_of
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import StorageCredentials


class EnvironmentConnections:
    """Connections by id from environment variables. A value is Airflow's JSON: ``{"conn_type": "kafka", "extra": {...}}``."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def kafka(self, connection_id: str) -> KafkaConnection:
        """See ConnectionSource."""
        return KafkaConnection.from_extra(self._read(connection_id).get("extra") or {}, where=f"connection {connection_id}")

    def storage(self, connection_id: str | None) -> StorageCredentials | None:
        """See ConnectionSource. Login and password are the key, as in Airflow's connections of type ``aws``."""
        if connection_id is None:
            return None
        found = self._read(connection_id)
        if not found.get("login") or not found.get("password"):
            return None
        token = (found.get("extra") or {}).get("aws_session_token")
        return StorageCredentials(access_key_id=found["login"], secret_access_key=found["password"], session_token=token)

    def spark_master(self, connection_id: str) -> str:
        """See ConnectionSource."""
        found = self._read(connection_id)
        return master_of(connection_id, found.get("conn_type"), found.get("host"), found.get("port"))

    def _read(self, connection_id: str) -> dict[str, Any]:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        text = self._environment.get(variable)
        if text is None:
            raise NotFound(
                f"connection {connection_id} is not defined", next_step=f"set {variable} to the connection as JSON", variable=variable
            )
        try:
            found = json.loads(text)
        except ValueError:
            # Not the text itself: it may hold a password.
            raise ConfigInvalid(f"{variable} is not JSON", next_step="write the connection as Airflow's JSON", variable=variable) from None
        if not isinstance(found, dict):
            raise ConfigInvalid(f"{variable} is not a JSON object", next_step="write the connection as Airflow's JSON", variable=variable)
        return found
