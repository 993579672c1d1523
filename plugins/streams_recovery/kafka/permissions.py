"""Rights of the user of a connection, as brokers tell them. Asking changes nothing, and topics and groups need not exist to be asked about.

Brokers tell a user without Describe on a resource nothing more than that. They never tell the rights on transactional ids; there the answer to a harmless
question replaces them.
"""

from __future__ import annotations

from collections.abc import Collection

from streams_recovery.core.errors import NotFound, RecoveryError, Refused
from streams_recovery.core.preflight.permissions import Answer
from streams_recovery.kafka import errors
from streams_recovery.kafka.clients import Clients
from streams_recovery.kafka.connection import KafkaConnection


def on_topics(clients: Clients, names: Collection[str]) -> dict[str, Answer]:
    """The operations that are allowed on each of these topics; none on one that may not be seen."""

    def ask() -> dict[str, Answer]:
        answer = clients.pure.describe_topics(sorted(names)) if names else []
        return {
            topic["name"]: frozenset()
            if topic["error_code"] == errors.TOPIC_AUTHORIZATION_FAILED
            else _operations(topic["authorized_operations"])
            for topic in answer
        }

    return clients.patiently("asking for the rights on topics", ask)


def on_group(clients: Clients, group_id: str) -> Answer:
    """The operations that are allowed on a group."""

    def ask() -> Answer:
        # kafka-python asks by a version that has no answer for a group that does not exist.
        described = clients.librdkafka.describe_consumer_groups(
            [group_id], include_authorized_operations=True, request_timeout=clients.attempt_timeout
        )
        operations = described[group_id].result().authorized_operations
        return None if operations is None else frozenset(operation.name for operation in operations)

    try:
        return clients.patiently(f"asking for the rights on group {group_id}", ask)
    except NotFound:
        return None
    except Refused as error:
        return frozenset(_unless(error, errors.GROUP_AUTHORIZATION_FAILED))


def on_cluster(clients: Clients) -> Answer:
    """The operations that are allowed on the cluster; none without Describe on it, whatever else is allowed."""

    def ask() -> Answer:
        return _operations(clients.pure.describe_cluster()["authorized_operations"])

    return clients.patiently("asking for the rights on the cluster", ask)


def sees_transactional_id(clients: Clients, transactional_id: str) -> bool:
    """True when this transactional id may be described, whether there is such a one or not."""
    try:
        clients.patiently(
            f"asking for the rights on transactional id {transactional_id}",
            lambda: clients.pure.describe_transactions([transactional_id]),
        )
    except NotFound:
        return True
    except Refused as error:
        _unless(error, errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return False
    return True


def principal(connection: KafkaConnection) -> str:
    """The user of a connection as access rules name it, unless the cluster maps names. A certificate's subject is not known here."""
    properties = connection.properties
    if "sasl.username" in properties:
        return f"User:{properties['sasl.username']}"
    if "sasl.oauthbearer.client.id" in properties:
        return f"User:{properties['sasl.oauthbearer.client.id']}"
    return "User:<subject of the certificate>" if "ssl.certificate.location" in properties else "User:ANONYMOUS"


def _operations(operations: Collection[str] | None) -> Answer:
    return None if operations is None else frozenset(operations)


def _unless(error: RecoveryError, code: int) -> tuple[str, ...]:
    """Nothing is allowed when ``error`` is the refusal with this code; any other error goes on."""
    if error.facts.get("code") != code:
        raise error
    return ()
