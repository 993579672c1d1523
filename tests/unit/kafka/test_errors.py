from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import errors as pure

from streams_recovery.core.errors import (
    BrokerUnavailable,
    ConfigInvalid,
    NotFound,
    PermanentError,
    RecoveryError,
    Refused,
    TransientError,
)
from streams_recovery.kafka import errors
from streams_recovery.kafka.connection import KafkaConnection

CONNECTION = KafkaConnection(bootstrap_servers="a:1,b:2", properties={"sasl.password": "hunter2"})


def librdkafka(code: int, text: str = "why") -> KafkaException:
    return KafkaException(KafkaError(code, text))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (librdkafka(KafkaError._TRANSPORT), BrokerUnavailable),
        (librdkafka(KafkaError._ALL_BROKERS_DOWN), BrokerUnavailable),
        (librdkafka(KafkaError._TIMED_OUT), BrokerUnavailable),
        (librdkafka(KafkaError._DESTROY_BROKER), BrokerUnavailable),
        (librdkafka(KafkaError._AUTHENTICATION), ConfigInvalid),
        (librdkafka(KafkaError._INVALID_ARG), ConfigInvalid),
        (librdkafka(KafkaError._UNKNOWN_PARTITION), NotFound),
        (librdkafka(KafkaError._NOENT), NotFound),
        (librdkafka(KafkaError.UNKNOWN_TOPIC_OR_PART), NotFound),
        (librdkafka(KafkaError.NOT_LEADER_FOR_PARTITION), TransientError),
        (librdkafka(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), TransientError),
        (librdkafka(KafkaError.UNSTABLE_OFFSET_COMMIT), TransientError),
        (librdkafka(KafkaError.TOPIC_AUTHORIZATION_FAILED), Refused),
        (librdkafka(KafkaError.CLUSTER_AUTHORIZATION_FAILED), Refused),
        (librdkafka(KafkaError.INVALID_CONFIG), Refused),
        (librdkafka(KafkaError.POLICY_VIOLATION), Refused),
        (librdkafka(KafkaError.SASL_AUTHENTICATION_FAILED), ConfigInvalid),
        (librdkafka(KafkaError.UNKNOWN), PermanentError),
        (KafkaException("no code"), PermanentError),
        (pure.KafkaConnectionError("gone"), BrokerUnavailable),
        (pure.KafkaTimeoutError("late"), BrokerUnavailable),
        (pure.NodeNotReadyError("n"), BrokerUnavailable),
        (pure.UnknownBrokerIdError("2"), BrokerUnavailable),
        (pure.UnknownTopicOrPartitionError("t"), NotFound),
        (pure.NotLeaderForPartitionError("t"), TransientError),
        (pure.NotCoordinatorError("t"), TransientError),
        (pure.GroupAuthorizationFailedError("g"), Refused),
        (pure.TransactionalIdNotFoundError("t"), NotFound),
        (pure.KafkaConfigurationError("c"), ConfigInvalid),
        (pure.SaslAuthenticationFailedError("s"), ConfigInvalid),
        (pure.UnknownError("u"), PermanentError),
        (FileNotFoundError(2, "No such file", "/etc/ca.pem"), ConfigInvalid),
    ],
    ids=str,
)
def test_both_clients_errors_become_ours(error: Exception, kind: type[RecoveryError]) -> None:
    found = errors.translated(error, CONNECTION, "asking", timeout=3)
    assert type(found) is kind
    assert found.next_step
    assert "hunter2" not in str(found)
    assert "\n" not in str(found)


def test_an_unreachable_cluster_is_named_with_the_time_it_was_given() -> None:
    found = errors.translated(librdkafka(KafkaError._TRANSPORT), CONNECTION, "asking", timeout=3)
    assert "no answer from a:1,b:2 within 3 s" in str(found)
    assert found.facts["brokers"] == "a:1,b:2"


def test_our_own_errors_stay_as_they_are() -> None:
    own = NotFound("x", next_step="y")
    assert errors.translated(own, CONNECTION, "asking", timeout=3) is own


def test_the_protocol_s_codes_mean_the_same_in_both_clients() -> None:
    """Codes are written as numbers here and there: each must be one that both clients know by the same number."""
    pairs = {
        KafkaError.UNSTABLE_OFFSET_COMMIT: (errors.UNSTABLE_OFFSET_COMMIT, pure.UnstableOffsetCommitError),
        KafkaError.TOPIC_ALREADY_EXISTS: (errors.TOPIC_ALREADY_EXISTS, pure.TopicAlreadyExistsError),
        KafkaError.UNKNOWN_TOPIC_OR_PART: (errors.UNKNOWN_TOPIC_OR_PARTITION, pure.UnknownTopicOrPartitionError),
        KafkaError.UNKNOWN_MEMBER_ID: (errors.UNKNOWN_MEMBER_ID, pure.UnknownMemberIdError),
        KafkaError.NON_EMPTY_GROUP: (errors.NON_EMPTY_GROUP, pure.NonEmptyGroupError),
        KafkaError.GROUP_ID_NOT_FOUND: (errors.GROUP_ID_NOT_FOUND, pure.GroupIdNotFoundError),
    }
    for code, (ours, kind) in pairs.items():
        assert code == ours == kind.errno
        assert errors.code_named(errors.name_of(code)) == code
    assert pure.TransactionalIdNotFoundError.errno == errors.TRANSACTIONAL_ID_NOT_FOUND


def test_every_transient_code_is_one_that_kafka_calls_retriable() -> None:
    for code in errors._TRANSIENT - {errors.UNSTABLE_OFFSET_COMMIT}:
        kind = pure.for_code(code)
        assert kind is not pure.UnknownError, code
        # kafka-python forgets to mark these; Kafka's own client retries on each.
        assert kind.retriable or code in {8, 27, 77}, kind


def test_a_name_that_is_no_error_has_no_code() -> None:
    assert errors.code_named("KafkaError") is None
    assert errors.code_named("nothing of the kind") is None
