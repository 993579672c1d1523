"""Connections as Airflow itself reads them: the command line must read the same of the same text."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from airflow.sdk import Connection

from streams_recovery.core.connection import StoredConnection
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.hooks.kafka import KafkaHook
from tests.support.airflow.connection_form import declared, shown

URIS = (
    "kafka://broker:9092",
    "kafka://Broker.Example.COM",
    "kafka://me:p%40s%2Fs@broker:9093?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&client.rack=",
    "kafka://?bootstrap.servers=a:1%2Cb:2",
    "kafka://?__extra__=%7B%22bootstrap.servers%22%3A+%22a%3A1%22%7D",
    "aws://AKIA:se%2Fcret@/?region_name=eu-west-1",
    "aws://",
    "spark://local%5B2%5D?deploy-mode=client",
    "spark://spark-master:7077",
    "spark://k8s%3A%2F%2Fhttps%3A%2F%2Fcluster:6443",
    "spark://https://cluster:6443",
    "google-cloud-platform://me@?a=b",
)


def ask(code: str) -> str:
    """What Python of this Airflow prints, in a process that has loaded no provider yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180).stdout


def test_airflow_shows_a_form_with_the_fields_of_a_connection_to_kafka() -> None:
    form = shown(ask)
    assert form == declared()
    assert form["hook"] == f"{KafkaHook.__module__}.{KafkaHook.__name__}"
    assert form["fields"]["bootstrap.servers"] == ("Bootstrap servers", False)
    assert form["fields"]["sasl.password"] == ("SASL password", True)


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_is_read_as_airflow_reads_it(uri: str) -> None:
    theirs, ours = Connection.from_uri(uri, conn_id="c"), StoredConnection.parse(uri)
    fields = ("conn_type", "host", "port", "login", "password")
    assert {name: getattr(ours, name) for name in fields} == {name: getattr(theirs, name) or None for name in fields}
    assert ours.extra == theirs.extra_dejson


@pytest.mark.parametrize("uri", ["a://b://c://d", "spark://local[2]", "kafka://broker:port"])
def test_what_airflow_cannot_read_is_refused_here_too(uri: str) -> None:
    with pytest.raises(Exception, match=r"."):
        Connection.from_uri(uri, conn_id="c")
    with pytest.raises(ValueError, match=r"."):
        StoredConnection.parse(uri)


def test_the_hook_s_connection_is_the_one_that_tasks_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "kafka://broker:9093?group.id=other")
    assert KafkaHook().get_conn().bootstrap_servers == "broker:9093"
    assert AirflowConnections().kafka("kafka_default").bootstrap_servers == "broker:9093"


def test_the_hook_says_what_is_wrong_with_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": {"bootstrap.server": "broker:9093"}}))
    with pytest.raises(ConfigInvalid):
        KafkaHook().get_conn()
    works, message = KafkaHook().test_connection()
    assert not works
    assert "bootstrap.servers" in message
