"""Both clients on a broker that checks who they are, and is checked by them: they get through, or fail at once with the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.reader import RangeReader
from tests.support.examples.rows import rows_in
from tests.support.kafka.records import read, topic, write
from tests.support.kafka.secured_broker import ADMIN, SCRAM, Secured

pytestmark = pytest.mark.kafka

# What librdkafka would need to give up by itself is more than this, even here.
WRONG = "canary-wrong-2b9e"


def mutual(secured: Secured, **changes: object) -> KafkaConnection:
    certificate, key = secured.authority.issue("backup", key_password="canary-key-77aa")
    extra: dict[str, object] = {
        "bootstrap.servers": secured.mutual,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": "canary-key-77aa",
    }
    return KafkaConnection.from_extra({**extra, **changes}, where="mutual")


def without_certificate(secured: Secured) -> KafkaConnection:
    extra = {"bootstrap.servers": secured.mutual, "security.protocol": "SSL", "ssl.ca.location": str(secured.authority.certificate)}
    return KafkaConnection.from_extra(extra, where="anonymous")


@pytest.mark.deep
@pytest.mark.parametrize("how", ["SCRAM-SHA-512", "PLAIN", "a certificate"])
def test_both_clients_get_through(secured: Secured, how: str) -> None:
    connection = mutual(secured) if how == "a certificate" else secured.connection(ADMIN, how)
    with KafkaCluster(connection) as cluster, ConsumerGroups(connection) as groups:
        assert len(cluster.cluster_id()) == 22
        assert groups.describe("nobody-there").kind == "absent"


@pytest.mark.deep
@pytest.mark.parametrize("how", ["SCRAM-SHA-512", "PLAIN"])
def test_both_clients_write(secured: Secured, how: str) -> None:
    connection = secured.connection(ADMIN, how)
    with topic(connection) as name:
        rows = [(1, b"k", b"by one client", None), (0, b"k", b"by the other", None)]
        assert write(connection, TopicPartition(name, 0), rows).rows == 2
        assert rows_in(read(connection, TopicPartition(name, 0), 0, 2)) == rows


WAYS_TO_FAIL: dict[str, tuple[Callable[[Secured], KafkaConnection], str]] = {
    "another authority": (
        lambda secured: secured.connection(ADMIN, ssl_ca_location=str(secured.stranger.certificate)),
        r"certificate of 127\.0\.0\.1:\d+: (unable to get local issuer|self-signed)",
    ),
    "a name that is not in the certificate": (
        lambda secured: secured.connection(ADMIN, bootstrap_servers=secured.by_name),
        r"certificate of localhost:\d+: Hostname mismatch",
    ),
    "a certificate that has run out": (
        lambda secured: secured.connection(ADMIN, bootstrap_servers=secured.expired),
        r"certificate of 127\.0\.0\.1:\d+: certificate has expired",
    ),
    "a wrong password": (lambda secured: secured.connection(ADMIN, sasl_password=WRONG), "invalid credentials"),
    "a wrong password, plain": (lambda secured: secured.connection(ADMIN, "PLAIN", sasl_password=WRONG), "Invalid username or password"),
    "another mechanism": (lambda secured: secured.connection(ADMIN, "SCRAM-SHA-256"), f"supported mechanisms: PLAIN,{SCRAM}"),
    "no certificate of ours": (without_certificate, "certificate"),
    "an authority that is not there": (lambda secured: secured.connection(ADMIN, ssl_ca_location="/nowhere.pem"), r"ssl\.ca\.location"),
}


@pytest.mark.deep
@pytest.mark.fault("F58")
@pytest.mark.parametrize("way", WAYS_TO_FAIL)
def test_who_is_turned_away_learns_why(
    secured: Secured, way: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    connect, says = WAYS_TO_FAIL[way]
    connection = connect(secured)
    caplog.set_level(logging.DEBUG)
    # The first asks confluent-kafka first, the second kafka-python.
    with KafkaCluster(connection) as cluster, ConsumerGroups(connection) as groups:
        for ask in (cluster.cluster_id, lambda: groups.describe("g")):
            with pytest.raises(ConfigInvalid, match=says) as caught:
                ask()
            assert "correct" in caught.value.next_step
            written = f"{caught.value!r} {caught.value} {caught.value.facts} {connection!r} {caplog.text} {''.join(capfd.readouterr())}"
            assert "canary" not in written


def test_the_name_is_not_checked_when_the_connection_says_so(secured: Secured) -> None:
    unchecked = secured.connection(ADMIN, bootstrap_servers=secured.by_name, ssl_endpoint_identification_algorithm="none")
    with KafkaCluster(unchecked) as cluster, ConsumerGroups(unchecked) as groups:
        assert cluster.cluster_id()
        assert groups.describe("nobody-there").kind == "absent"


@pytest.mark.fault("F58")
@pytest.mark.parametrize("way", ["another authority", "an authority that is not there"])
def test_a_task_that_is_turned_away_says_so_too(secured: Secured, way: str) -> None:
    connection = WAYS_TO_FAIL[way][0](secured)
    with (
        pytest.raises(ConfigInvalid, match=r"certificate verify failed|ssl\.ca\.location") as caught,
        RangeReader(connection, TopicPartition("t", 0), 0, 1) as reader,
    ):
        list(reader)
    assert "canary" not in str(caught.value)
