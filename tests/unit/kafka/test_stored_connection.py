from __future__ import annotations

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.stored_connection import StoredConnection
from streams_recovery.kafka import properties as known
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.stored_connection import kafka_connection

WHERE = "connection kafka_default"


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
