"""The entry of this package in Airflow's list of providers, and the form of its connections."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

from streams_recovery.kafka.properties import CHOICES

_OTHER_PROVIDER: Final = "airflow.providers.apache.kafka"
_HOOK: Final = "streams_recovery.hooks.kafka"


def get_provider_info() -> dict[str, Any]:
    """The provider, for the entry point ``apache_airflow_provider``. Every Airflow process asks for it, so nothing heavy is imported."""
    # A type that two providers declare is a warning in every process. Types aws and spark come with the providers that this package needs.
    own_type = not _installed(_OTHER_PROVIDER)
    return {
        "package-name": "kafka-streams-recovery",
        "name": "Kafka Streams Recovery",
        "description": "Savepoints, restore and disaster recovery for Kafka Streams applications.",
        "bundles": [{"integration-name": "Kafka Streams", "python-modules": ["streams_recovery.provider.bundle"]}],
        "hooks": [{"integration-name": "Kafka Streams", "python-modules": [_HOOK]}],
        "integrations": [
            {"integration-name": "Kafka Streams", "external-doc-url": "https://kafka.apache.org/documentation/streams/", "tags": ["apache"]}
        ],
        "connection-types": [_kafka_type()] if own_type else [],
    }


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _kafka_type() -> dict[str, Any]:
    return {
        "connection-type": "kafka",
        "hook-class-name": f"{_HOOK}.KafkaHook",
        "hook-name": "Apache Kafka",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "host", "port", "login", "password"],
            "relabeling": {"extra": "Other client properties"},
            "placeholders": {"extra": '{"ssl.ca.location": "/etc/kafka/ca.pem"}'},
        },
        "conn-fields": {
            "bootstrap.servers": _field("Bootstrap servers", "host:port, several with commas between them"),
            "security.protocol": _field("Security protocol", "Empty means PLAINTEXT", enum=CHOICES["security.protocol"]),
            "sasl.mechanism": _field("SASL mechanism", "For SASL_PLAINTEXT and SASL_SSL", enum=CHOICES["sasl.mechanism"]),
            "sasl.username": _field("SASL user name"),
            "sasl.password": _field("SASL password", secret=True),
        },
    }


def _field(label: str, description: str | None = None, *, enum: tuple[str, ...] = (), secret: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": ["string", "null"]}
    if enum:
        schema["enum"] = [None, *enum]
    if secret:
        schema["format"] = "password"
    return {"label": label, "schema": schema} | ({"description": description} if description else {})
