"""A Kafka connection as people have it in Airflow: properties as extra, or a URI, and often written for other tools too."""

from __future__ import annotations

from typing import Any, Final

from streams_recovery.core.escaping import logger
from streams_recovery.core.stored_connection import StoredConnection, ignored_text
from streams_recovery.kafka import properties as known
from streams_recovery.kafka.connection import KafkaConnection

LOGGER = logger("streams_recovery.kafka.stored_connection")
_DEFAULT_PORT: Final = 9092


def kafka_connection(stored: StoredConnection, *, where: str) -> KafkaConnection:
    """The cluster that ``stored`` describes. The extra comes first; host and port are its address, login and password its SASL user, where the extra has
    none. Properties of consumers and producers are left out, with a warning that names them. Raises ``ConfigInvalid`` as ``KafkaConnection.from_extra``.
    """
    # A form leaves fields that were not filled in as empty ones.
    extra = {key: value for key, value in stored.extra.items() if value not in (None, "")}
    ignored = {key for key in extra if key in known.CHOSEN_HERE}
    extra = _address(stored) | _user(stored, extra) | {key: value for key, value in extra.items() if key not in ignored}
    if _uses_no_sasl(extra) and stored.login:
        ignored.add("login")
    if ignored:
        LOGGER.warning("%s", ignored_text(where, ignored))
    return KafkaConnection.from_extra(extra, where=where)


def _address(stored: StoredConnection) -> dict[str, Any]:
    if not stored.host or any(key in stored.extra for key in (known.BOOTSTRAP_SERVERS, "metadata.broker.list")):
        return {}
    # In a field of its own, host may be a whole list.
    whole = ":" in stored.host or "," in stored.host
    return {known.BOOTSTRAP_SERVERS: stored.host if whole else f"{stored.host}:{stored.port or _DEFAULT_PORT}"}


def _user(stored: StoredConnection, extra: dict[str, Any]) -> dict[str, Any]:
    if _uses_no_sasl(extra):
        return {}
    found = {"sasl.username": stored.login, "sasl.password": stored.password}
    return {key: value for key, value in found.items() if value}


def _uses_no_sasl(extra: dict[str, Any]) -> bool:
    return not str(extra.get("security.protocol", "")).upper().startswith("SASL")
