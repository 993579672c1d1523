"""Quotas of a client, for as long as a test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from streams_recovery.kafka.connection import KafkaConnection


@contextmanager
def quota(connection: KafkaConnection, client: str, key: str, a_second: float) -> Iterator[None]:
    """A quota of the client with this id. A broker learns of it some time after the request was answered."""
    admin = KafkaAdminClient(bootstrap_servers=connection.bootstrap_servers)
    try:
        _set(admin, client, key, a_second)
        yield
    finally:
        _set(admin, client, key, None)
        admin.close()


def _set(admin: KafkaAdminClient, client: str, key: str, a_second: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client)],
                ops=[entry.OpData(key=key, value=a_second or 0.0, remove=a_second is None)],
            )
        ],
        validate_only=False,
    )
    answer = admin._manager.run(admin._manager.send, request)
    assert [item.error_code for item in answer.entries] == [0]
