"""What a connection may say, and what each client library gets of it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.kafka import properties as known
from streams_recovery.kafka.clients import ClientCredentials
from streams_recovery.kafka.connection import KafkaConnection, kafka_connection

WHERE = "connection kafka_default"
SECURE = {
    "bootstrap.servers": "a:9093, b:9093,",
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "scram-sha-512",
    "sasl.username": "recovery",
    "sasl.password": "hunter2",
    "ssl.ca.location": "/etc/ca.pem",
    "ssl.key.password": "hunter3",
    "ssl.endpoint.identification.algorithm": "none",
    "socket.timeout.ms": 7000,
}
OAUTH = {
    "bootstrap.servers": "a:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "hunter4",
    "sasl.oauthbearer.token.endpoint.url": "https://id/token",
}


def from_extra(extra: Mapping[str, object]) -> KafkaConnection:
    return KafkaConnection.from_extra(extra, where=WHERE)


def without(extra: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in extra.items() if name != key}


def test_librdkafka_gets_the_properties_by_its_own_names() -> None:
    config = from_extra(SECURE).client_config(**{"group.id": "g", "client.id": "mine"})
    assert config["bootstrap.servers"] == "a:9093,b:9093"
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert config["sasl.password"] == "hunter2"
    assert config["socket.timeout.ms"] == "7000"
    assert (config["group.id"], config["client.id"]) == ("g", "mine")
    assert config["log_level"] == 0
    assert "sasl.mechanisms" not in config


def test_overrides_win() -> None:
    connection = from_extra({"bootstrap.servers": "a:1", "client.id": "theirs"})
    assert connection.client_config(**{"client.id": "ours"})["client.id"] == "ours"


def test_kafka_python_gets_the_same_by_its_names() -> None:
    assert from_extra(SECURE).admin_config() == {
        "bootstrap_servers": ["a:9093", "b:9093"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "recovery",
        "sasl_plain_password": "hunter2",
        "ssl_cafile": "/etc/ca.pem",
        "ssl_password": "hunter3",
        "ssl_check_hostname": False,
        "request_timeout_ms": 7000,
    }


def test_every_translated_name_is_one_that_kafka_python_has() -> None:
    from kafka import KafkaAdminClient

    assert {name for name, _ in known.ADMIN_NAMES.values()} <= set(KafkaAdminClient.DEFAULT_CONFIG)


def test_every_allowed_property_is_one_that_librdkafka_has() -> None:
    from confluent_kafka import Producer

    samples = {
        "security.protocol": "plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.oauthbearer.method": "default",
        "sasl.oauthbearer.extensions": "a=b",
        "ssl.endpoint.identification.algorithm": "none",
        "client.dns.lookup": "use_all_dns_ips",
        "broker.address.family": "any",
        "socket.keepalive.enable": "true",
        "bootstrap.servers": "127.0.0.1:1",
    }
    for name in known.ALLOWED:
        Producer({name: samples.get(name, "10000"), "log_level": 0})


def test_oauth_brings_its_own_token_provider() -> None:
    connection = from_extra(OAUTH)
    provider = connection.admin_config()["sasl_oauth_token_provider"]
    assert isinstance(provider, ClientCredentials)
    assert provider.extensions() == {}
    assert connection.client_config()["sasl.oauthbearer.method"] == "oidc"


@pytest.mark.fault("F61")
@pytest.mark.parametrize("url", ["http://id.example.com/token", "HTTP://10.0.0.7:8080/token", "http://127.0.0.1.example.com/token"])
def test_a_client_secret_is_not_sent_over_plain_http_to_another_machine(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="plain http") as caught:
        from_extra({**OAUTH, "sasl.oauthbearer.token.endpoint.url": url})
    assert "hunter4" not in str(caught.value)
    assert "https" in caught.value.next_step


@pytest.mark.parametrize("url", ["https://id/token", "http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]:8080/token"])
def test_an_endpoint_with_tls_or_on_this_machine_is_asked(url: str) -> None:
    assert from_extra({**OAUTH, "sasl.oauthbearer.token.endpoint.url": url}).properties["sasl.oauthbearer.token.endpoint.url"] == url


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://id/token", "id.example.com/token", "https://", "http://[::1", "https://me:hunter4@id/"]
)
def test_what_is_no_web_address_is_no_endpoint(url: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"sasl\.oauthbearer\.token\.endpoint\.url") as caught:
        from_extra({**OAUTH, "sasl.oauthbearer.token.endpoint.url": url})
    assert "hunter4" not in str(caught.value)


@pytest.mark.fault("F61")
@pytest.mark.parametrize("extra", [SECURE, OAUTH], ids=["password", "oauth"])
def test_secrets_are_never_shown(extra: Mapping[str, object]) -> None:
    connection = from_extra(extra)
    assert connection.secrets().keys() == connection.properties.keys() & known.SECRETS
    assert connection.secrets()
    for secret in connection.secrets().values():
        assert secret not in repr(connection)
        assert secret not in str(connection)


def test_it_can_be_pickled() -> None:
    connection = from_extra(SECURE)
    assert pickle.loads(pickle.dumps(connection)) == connection
    assert pickle.loads(pickle.dumps(connection.client_config()))["sasl.password"] == "hunter2"


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("sasl.pasword", "sasl.password"),
        ("bootstrap_servers", "bootstrap.servers"),
        ("ssl.ca", "ssl.ca.location"),
        ("group.id", ""),
        ("auto.offset.reset", ""),
        ("enable.ssl.certificate.verification", ""),
        ("plugin.library.paths", ""),
        ("ssl.key.pem", ""),
        ("isolation.level", ""),
        ("sasl.oauthbearer.config", "sasl.oauthbearer."),
        ("error_cb", ""),
        ("", ""),
    ],
)
def test_what_is_not_allowed_is_named_with_the_nearest_that_is(key: str, nearest: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_extra({"bootstrap.servers": "a:1", key: "x"})
    assert WHERE in str(caught.value)
    assert key in str(caught.value)
    assert str(caught.value.facts["nearest"]) in known.ALLOWED
    assert str(caught.value.facts["nearest"]).startswith(nearest)


@given(key=st.text(max_size=40).filter(lambda key: key not in known.ALLOWED and key not in known.ALIASES))
def test_nothing_gets_through_that_is_not_on_the_list(key: str) -> None:
    with pytest.raises(ConfigInvalid):
        from_extra({"bootstrap.servers": "a:1", key: "x"})


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers"),
        ({"bootstrap.servers": ["a:1"]}, "list"),
        ({"bootstrap.servers": None}, "NoneType"),
        ({"bootstrap.servers": "a:1", "security.protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"bootstrap.servers": "a:1", "sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-256"),
        ({"bootstrap.servers": "a:1", "socket.timeout.ms": "soon"}, "whole number"),
        ({"bootstrap.servers": "a:1", "socket.timeout.ms": -1}, "whole number"),
        (without(SECURE, "sasl.mechanisms"), "sasl.mechanism"),
        (without(SECURE, "sasl.password"), "sasl.password"),
        ({**SECURE, "sasl.username": ""}, "sasl.username"),
        (without(OAUTH, "sasl.oauthbearer.method"), "sasl.oauthbearer.method"),
        (without(OAUTH, "sasl.oauthbearer.client.secret"), "sasl.oauthbearer.client.secret"),
    ],
)
def test_values_that_cannot_be_used_are_told(extra: Mapping[str, object], says: str) -> None:
    with pytest.raises(ConfigInvalid, match=says) as caught:
        from_extra(extra)
    assert "hunter" not in str(caught.value)
    assert caught.value.next_step


def read(text: str) -> KafkaConnection:
    return kafka_connection(StoredConnection.parse(text), where=WHERE)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("kafka://broker:9093", "broker:9093"),
        ("kafka://broker", "broker:9092"),
        ("kafka://?bootstrap.servers=a:1,b:2", "a:1,b:2"),
        ("kafka://old:1?bootstrap.servers=a:1", "a:1"),
        ('{"conn_type": "kafka", "host": "a:1,b:2"}', "a:1,b:2"),
        ('{"conn_type": "kafka", "host": "a", "port": 1, "extra": {"metadata.broker.list": "b:2"}}', "b:2"),
    ],
)
def test_the_address_is_in_the_extra_or_in_the_host(text: str, servers: str) -> None:
    assert read(text).bootstrap_servers == servers


def test_login_and_password_are_the_sasl_user_where_the_extra_names_none() -> None:
    query = "security.protocol=SASL_SSL&sasl.mechanism=PLAIN"
    found = read(f"kafka://me:hunter2@broker:9093?{query}")
    assert (found.properties["sasl.username"], found.properties["sasl.password"]) == ("me", "hunter2")
    assert read(f"kafka://me:hunter2@broker?{query}&sasl.username=other").properties["sasl.username"] == "other"


def test_what_other_tools_need_is_left_out_with_a_warning_that_names_keys_only(caplog: pytest.LogCaptureFixture) -> None:
    found = read("kafka://me:hunter2@broker:1?group.id=hunter3&auto.offset.reset=latest&client.rack=a")
    assert dict(found.properties) == {"client.rack": "a"}
    assert [record.getMessage() for record in caplog.records] == [
        "connection kafka_default: ignored auto.offset.reset, group.id, login: this software does not use them"
    ]
    assert "hunter" not in caplog.text


def test_without_anything_to_ignore_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    read("kafka://me:hunter2@broker:1?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&sasl.username=")
    assert caplog.records == []


@pytest.mark.parametrize("key", ["ssl.ca.locaton", "sasl.kerberos.keytab", "enable.ssl.certificate.verification", "gruop.id"])
def test_a_property_that_could_be_security_or_a_typing_error_is_refused(key: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        read(f"kafka://broker:1?{key}=x")
    assert refused.value.facts["key"] == key


def test_what_is_ignored_exists_and_is_neither_security_nor_what_may_be_set() -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    assert not known.CHOSEN_HERE & (known.ALLOWED | known.ALIASES.keys())
    assert not [key for key in known.CHOSEN_HERE if key.startswith(("ssl.", "sasl.", "security.", "https."))]
    unknown = []
    for key in sorted(key for key in known.CHOSEN_HERE if "." in key):
        try:
            for kind in (Consumer, Producer):
                # The value fits no property: librdkafka then names the property, or does not know it.
                kind({"group.id": "g", key: "no value of any property", "log_level": 0})
        except KafkaException as error:
            if "No such configuration property" in str(error):
                unknown.append(key)
    assert unknown == []
