# ruff: noqa: SLF001  # librdkafka's own error codes are public, their names begin with an underscore all the same
"""Errors of the two Kafka clients as errors of this project. The only place with the clients' error codes.

Codes at or above zero are the protocol's and mean the same in both clients; librdkafka's own are below zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka import KafkaException
from kafka import errors as pure

from streams_recovery.core.errors import BrokerUnavailable, ConfigInvalid, NotFound, PermanentError, RecoveryError, Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.words import first_names
from streams_recovery.kafka.connection import KafkaConnection

CLIENT_ERRORS: Final = (KafkaException, pure.KafkaError, OSError)

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
UNKNOWN_MEMBER_ID: Final = 25
TOPIC_AUTHORIZATION_FAILED: Final = 29
GROUP_AUTHORIZATION_FAILED: Final = 30
CLUSTER_AUTHORIZATION_FAILED: Final = 31
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_CONFIG: Final = 40
POLICY_VIOLATION: Final = 44
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
NON_EMPTY_GROUP: Final = 68
GROUP_ID_NOT_FOUND: Final = 69
GROUP_SUBSCRIBED_TO_TOPIC: Final = 86
UNSTABLE_OFFSET_COMMIT: Final = 88
THROTTLING_QUOTA_EXCEEDED: Final = 89
UNKNOWN_TOPIC_ID: Final = 100
TRANSACTIONAL_ID_NOT_FOUND: Final = 105
ALL_BROKERS_DOWN: Final = LibrdkafkaError._ALL_BROKERS_DOWN

_UNREACHABLE: Final = frozenset(
    {
        LibrdkafkaError._TRANSPORT,
        ALL_BROKERS_DOWN,
        LibrdkafkaError._TIMED_OUT,
        LibrdkafkaError._TIMED_OUT_QUEUE,
        LibrdkafkaError._RESOLVE,
        LibrdkafkaError._WAIT_COORD,
        LibrdkafkaError._DESTROY_BROKER,  # the broker that was asked has left the cluster
    }
)
_UNREACHABLE_CLASSES: Final = (
    pure.KafkaConnectionError,
    pure.KafkaTimeoutError,
    pure.NodeNotReadyError,
    pure.MetadataEmptyBrokerList,
    pure.UnknownBrokerIdError,  # the one to be asked has left the cluster, or has just come to it
)
# A partition that does not exist, or that the one asked does not know of yet. librdkafka's own answers come from its cached metadata.
_UNKNOWN_PARTITION: Final = frozenset(
    {UNKNOWN_TOPIC_OR_PARTITION, LibrdkafkaError._NOENT, LibrdkafkaError._UNKNOWN_TOPIC, LibrdkafkaError._UNKNOWN_PARTITION}
)
_NOT_FOUND: Final = frozenset({GROUP_ID_NOT_FOUND, TRANSACTIONAL_ID_NOT_FOUND, *_UNKNOWN_PARTITION})
_NOT_AUTHORIZED: Final = frozenset(
    {
        TOPIC_AUTHORIZATION_FAILED,
        GROUP_AUTHORIZATION_FAILED,
        CLUSTER_AUTHORIZATION_FAILED,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        65,  # DELEGATION_TOKEN_AUTHORIZATION_FAILED
    }
)
_NOT_AUTHENTICATED: Final = frozenset({33, 34, 58, LibrdkafkaError._AUTHENTICATION, LibrdkafkaError._SSL})
# What was asked for is wrong in itself, or the cluster is set up not to allow it.
_NOT_ACCEPTED: Final = frozenset({12, 17, 37, 38, 39, 40, 42, 44, 73})
# Elections, loading coordinators, throttling: what a healthy cluster says for a moment.
_TRANSIENT: Final = frozenset(
    {
        LEADER_NOT_AVAILABLE,
        6,
        7,
        8,
        9,
        13,
        14,
        15,
        16,
        19,
        20,
        27,
        41,
        51,
        56,
        72,
        74,
        75,
        77,
        78,
        UNSTABLE_OFFSET_COMMIT,
        THROTTLING_QUOTA_EXCEEDED,
        UNKNOWN_TOPIC_ID,
        103,
    }
)
# FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH
_STALE_LEADER: Final = frozenset({74, 75})


def code_of(error: BaseException) -> int | None:
    """The protocol's or librdkafka's code of a client error, or None when it has none."""
    if isinstance(error, KafkaException):
        inner = error.args[0] if error.args else None
        return int(inner.code()) if isinstance(inner, LibrdkafkaError) else None
    code = getattr(error, "errno", None)
    return code if isinstance(error, pure.KafkaError) and isinstance(code, int) else None


def unknown_partition(code: int | None) -> bool:
    """True when a partition does not exist, or is not known yet where it was asked for."""
    return code in _UNKNOWN_PARTITION


def name_of(code: int) -> str:
    """The protocol's name of a code."""
    return str(pure.for_code(code).__name__)


def code_named(name: str) -> int | None:
    """The code behind a name that ``name_of`` gives, or None when there is no such name."""
    code = getattr(getattr(pure, name, None), "errno", None)
    return code if isinstance(code, int) else None


def transient(code: int | None) -> bool:
    """True for what a healthy cluster answers for a moment."""
    return code in _TRANSIENT


def stale_leader(code: int | None) -> bool:
    """True when a client asks under a leader that was replaced. Without fresh metadata librdkafka asks the same again."""
    return code in _STALE_LEADER


def unreachable(code: int | None) -> bool:
    """True when no broker answered: the asked broker may be gone, or be on its way."""
    return code in _UNREACHABLE


def turned_away(error: LibrdkafkaError | None) -> bool:
    """True when a broker does not want us, or we do not want it: its certificate, our credentials. A handshake that was cut off is neither."""
    if error is None:
        return False
    if error.code() == LibrdkafkaError._TRANSPORT:
        # It does not like the certificate we showed, or that we showed none.
        return "tls alert" in error.str() and "certificate" in error.str()
    cut_off = ("isconnect", "imed out", "Connection", "Local:")
    return error.code() in _NOT_AUTHENTICATED and not any(part in error.str() for part in cut_off)


def rejected(connection: KafkaConnection, reason: str) -> ConfigInvalid:
    """No broker and we could agree on who we are. Trying again would only repeat it."""
    return ConfigInvalid(
        f"{connection.bootstrap_servers} and this connection do not accept each other: {reason}",
        next_step="correct certificates, user and password of the Kafka connection",
        brokers=connection.bootstrap_servers,
    )


def translated(error: BaseException, connection: KafkaConnection, doing: str, *, timeout: float) -> RecoveryError:
    """``error`` as one of ours. ``doing`` completes the sentence "... failed"; ``timeout`` is what the client was given, in seconds."""
    if isinstance(error, RecoveryError):
        return error
    text, code = text_of(error), code_of(error)
    brokers = connection.bootstrap_servers
    if code in _UNREACHABLE or isinstance(error, _UNREACHABLE_CLASSES):
        return unavailable(connection, f"{doing}: {text}", timeout=timeout, connected=True)
    if code in _NOT_AUTHENTICATED:
        return rejected(connection, text)
    if code == LibrdkafkaError._INVALID_ARG or isinstance(error, (pure.KafkaConfigurationError, OSError)):
        return ConfigInvalid(
            f"the Kafka connection to {brokers} cannot be used: {text}", next_step="correct the Kafka connection", brokers=brokers
        )
    return by_code(code, f"{doing} failed: {text}")


def by_code(code: int | None, reason: str) -> RecoveryError:
    """An error for an answer that the cluster gave with ``code``."""
    if code in _NOT_AUTHORIZED:
        return Refused(reason, next_step="give the user of the Kafka connection the right to do this", code=code)
    if code in _NOT_ACCEPTED:
        return Refused(reason, next_step="change what is asked for: the cluster does not accept it", code=code)
    if code in _NOT_FOUND:
        return NotFound(reason, next_step="check the name and that the connection leads to the right cluster", code=code)
    if code in _TRANSIENT:
        return TransientError(reason, next_step="try again; if it stays, check the brokers' health", code=code)
    return PermanentError(reason, next_step="see the broker's log for the reason", code=code)


def no_leader(partitions: Mapping[TopicPartition, Sequence[int]]) -> TransientError:
    """Partitions that exist and that no broker leads now, each with the brokers that have its replicas."""
    brokers = sorted({str(broker) for replicas in partitions.values() for broker in replicas}, key=int)
    return TransientError(
        f"{first_names(partitions)} {'has' if len(partitions) == 1 else 'have'} no leader now; the replicas are on {_brokers(brokers)}",
        next_step=f"see that {_brokers(brokers)} {'runs' if len(brokers) == 1 else 'run'}, then try again",
        code=LEADER_NOT_AVAILABLE,
        partitions={str(tp): list(replicas) for tp, replicas in sorted(partitions.items())},
    )


def _brokers(ids: Sequence[str]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {', '.join(ids)}"


def unavailable(connection: KafkaConnection, reason: str, *, timeout: float, connected: bool) -> BrokerUnavailable:
    """No broker answered. ``connected`` tells whether one had answered before, so that it is worth asking again at once."""
    return BrokerUnavailable(
        f"no answer from {connection.bootstrap_servers} within {timeout:g} s: {reason}",
        next_step="check that the brokers run, and the address and security settings of the Kafka connection",
        brokers=connection.bootstrap_servers,
        timeout_seconds=timeout,
        connected=connected,
    )


def text_of(error: BaseException) -> str:
    """The client's own words, in one line."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], LibrdkafkaError):
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return " ".join(str(error).split()) or type(error).__name__
