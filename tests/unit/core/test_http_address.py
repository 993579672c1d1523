from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.http_address import unencrypted, web_address


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
