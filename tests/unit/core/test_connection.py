"""That URIs are read as Airflow reads them is in tests/dags/test_connections.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.connection import StoredConnection, ignored_text, unencrypted, web_address

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


def test_both_forms_of_one_connection_are_equal() -> None:
    uri = StoredConnection.parse("kafka://me:p%40ss@broker:9093?security.protocol=SASL_SSL")
    fields = {"conn_type": "kafka", "host": "broker", "port": "9093", "login": "me", "password": "p@ss"}
    assert uri == StoredConnection.parse(json.dumps({**fields, "extra": {"security.protocol": "SASL_SSL"}}))
    assert (uri.host, uri.port, uri.password) == ("broker", 9093, "p@ss")


def test_an_extra_may_be_a_text_of_json_in_either_form() -> None:
    expected = {"a": {"b": 1}}
    assert StoredConnection.parse(json.dumps({"extra": '{"a": {"b": 1}}'})).extra == expected
    assert StoredConnection.parse("kafka://?__extra__=%7B%22a%22%3A%20%7B%22b%22%3A%201%7D%7D").extra == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hunter2", "neither a JSON object nor a URI"),
        ('["hunter2"]', "neither a JSON object nor a URI"),
        ("a://b://c://hunter2", "neither a JSON object nor a URI"),
        ('{"password": "hunter2"', "not JSON"),
        ('{"extra": "hunter2"}', "its extra is not JSON"),
        ('{"extra": ["hunter2"]}', "its extra is not a JSON object"),
        ('{"port": "hunter2"}', "its port is not a number"),
        ('{"password": ["hunter2"]}', "has to be a text"),
        ("spark://local[2]?p=hunter2", "percent-encoded"),
        ("kafka://broker:hunter2", "percent-encoded"),
    ],
)
def test_what_cannot_be_read_is_explained_without_repeating_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        StoredConnection.parse(text)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@given(text=TEXT)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = StoredConnection.parse(text)
    except ValueError:
        return
    assert isinstance(found, StoredConnection)


def test_neither_its_text_nor_a_warning_shows_a_value() -> None:
    found = StoredConnection.parse("kafka://me:hunter2@broker?group.id=hunter3")
    assert repr(found) == "StoredConnection(kafka)"
    assert ignored_text("connection k", found.extra) == "connection k: ignored group.id: this software does not use them"


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8080",
        "http://127.3.2.1/x",
        "http://localhost/health",
        "http://[::1]:80/",
        "https://id.example.com",
        "HTTPS://10.1.1.1",
    ],
)
def test_tls_and_this_machine_are_not_read_by_the_network(text: str) -> None:
    assert not unencrypted(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://id.example.com",
        "HTTP://ID",
        "http://127.0.0.1.example.com/",
        "http://localhost.example.com",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://127.1",
    ],
)
def test_plain_http_elsewhere_is(text: str) -> None:
    assert unencrypted(text)


@pytest.mark.parametrize(
    "text",
    ["", "id.example.com", "ftp://id", "file:///etc/passwd", "http://", "https://:443", "http://[::1", "http://h:0", "http://h:99999"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        web_address(text)


@given(st.text(min_size=1).filter(lambda text: not set(text) & set("/?#@[]\\\t\r\n")))
def test_a_password_is_refused_without_being_shown(password: str) -> None:
    for text in (
        f"https://me:canary{password}@host/",
        f"ftp://me:canary{password}@host",
        f"https://me:canary{password}@[::1",
        "https://me:canary\u2100@h",
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            web_address(text)
        assert "canary" not in str(caught.value)
