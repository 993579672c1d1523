"""The client properties that a user may set, by librdkafka's names, and kafka-python's names for them.

An allow-list: a ``group.id`` or ``auto.offset.reset`` that slips through would change what is read without a word. Where a connection was written for
other tools too, what is in ``CHOSEN_HERE`` can be left out without harm. Any other name is refused: it may be a security setting with a typing error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

BOOTSTRAP_SERVERS: Final = "bootstrap.servers"

ALIASES: Final[Mapping[str, str]] = {"sasl.mechanisms": "sasl.mechanism", "metadata.broker.list": BOOTSTRAP_SERVERS}

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    # What both clients speak without a system library; Kerberos needs one on every executor.
    "sasl.mechanism": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "sasl.oauthbearer.method": ("oidc",),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
}

SECRETS: Final = frozenset({"sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret"})

NEEDED_BY_PASSWORD: Final = ("sasl.username", "sasl.password")
OAUTH_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
NEEDED_BY_OAUTH: Final = ("sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", OAUTH_ENDPOINT)

_OAUTH: Final = frozenset({*NEEDED_BY_OAUTH, "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"})


def _checks_host_name(value: str) -> bool:
    return value != "none"


# Name and type of each property that kafka-python has too.
ADMIN_NAMES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "client.id": ("client_id", str),
    "client.dns.lookup": ("client_dns_lookup", str),
    "security.protocol": ("security_protocol", str),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", _checks_host_name),
    "socket.timeout.ms": ("request_timeout_ms", int),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "receive.message.max.bytes": ("receive_message_max_bytes", int),
}

ALLOWED: Final = frozenset(
    {
        BOOTSTRAP_SERVERS,
        *ADMIN_NAMES,
        *_OAUTH,
        "broker.address.family",
        "client.rack",
        "fetch.message.max.bytes",
        "message.max.bytes",
        "request.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
    }
)

# Properties of consumers and producers, and callbacks of Airflow's provider for Kafka: this software sets its own.
CHOSEN_HERE: Final = frozenset(
    {
        *("acks", "request.required.acks", "enable.idempotence", "transactional.id", "transaction.timeout.ms"),
        *("retries", "message.send.max.retries", "retry.backoff.ms", "retry.backoff.max.ms", "delivery.timeout.ms", "message.timeout.ms"),
        *(
            "linger.ms",
            "queue.buffering.max.ms",
            "queue.buffering.max.messages",
            "queue.buffering.max.kbytes",
            "batch.size",
            "batch.num.messages",
        ),
        *(
            "compression.type",
            "compression.codec",
            "compression.level",
            "partitioner",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
        ),
        *(
            "group.id",
            "group.instance.id",
            "group.protocol",
            "partition.assignment.strategy",
            "session.timeout.ms",
            "heartbeat.interval.ms",
        ),
        *("max.poll.interval.ms", "auto.offset.reset", "enable.auto.commit", "auto.commit.interval.ms", "enable.auto.offset.store"),
        *("isolation.level", "enable.partition.eof", "check.crcs", "fetch.min.bytes", "fetch.wait.max.ms", "fetch.max.bytes"),
        *("max.partition.fetch.bytes", "queued.min.messages", "queued.max.messages.kbytes", "allow.auto.create.topics"),
        *("statistics.interval.ms", "debug", "log_level", "log.connection.close", "error_cb", "stats_cb", "throttle_cb", "on_delivery"),
    }
)
