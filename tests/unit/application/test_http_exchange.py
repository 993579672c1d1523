"""An instance that answers without end, with too much or with nonsense costs neither time nor memory without a limit."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import tracemalloc

import pytest

from streams_recovery.application import http_control
from streams_recovery.application.port import AnswerTooLarge
from streams_recovery.core.errors import ApplicationNotReady, Damaged

MIB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def raw():
    """Starts a server that sends what it is given, byte for byte, until nobody listens, and yields its address."""
    servers = []

    def start(pieces):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    for piece in pieces():
                        connection.sendall(piece)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def flood(head, piece):
    def pieces():
        yield head
        while True:
            yield piece

    return pieces


def slowly(head, piece, pause=0.02):
    def pieces():
        yield head
        while True:
            time.sleep(pause)
            yield piece

    return pieces


def memory(call):
    """Bytes that the call needed at most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_state_without_end_is_no_answer(raw):
    url = raw(flood(OK + b'\r\n{"state": "RUNNING", "x": "', b"x" * 65536))
    assert memory(lambda: http_control.reported(url, "/health")) < 8 * MIB
    assert http_control.reported(url, "/health").state is None


def test_a_state_that_claims_to_be_large_is_no_answer(raw):
    body = b'{"state": "RUNNING"}' + b" " * (2 * MIB)
    url = raw(lambda: [OK + b"Content-Length: %d\r\n\r\n" % len(body), body])
    assert http_control.reported(url, "/health").state is None


def test_a_store_without_end_is_refused_at_the_limit(raw, monkeypatch):
    monkeypatch.setattr(http_control, "MAX_STORE_BYTES", 4 * MIB)
    url = raw(flood(OK + b'\r\n{"k": "', b"x" * 65536))

    def ask():
        with pytest.raises(AnswerTooLarge, match=r"/state/totals has more than 4194304 bytes") as caught:
            http_control.store(url, "/state/{store}", "totals")
        assert "queryable" in caught.value.next_step

    assert memory(ask) < 32 * MIB


def test_a_store_at_the_limit_is_an_answer(raw, monkeypatch):
    body = b'{"k": 1}'
    monkeypatch.setattr(http_control, "MAX_STORE_BYTES", len(body))
    url = raw(lambda: [OK + b"Content-Length: %d\r\n\r\n" % len(body), body])
    assert http_control.store(url, "/state/{store}", "totals") == {"k": 1}


def test_what_a_post_says_is_read_no_further_than_its_beginning(raw):
    assert memory(lambda: http_control.post(raw(flood(OK + b"\r\n", b"x" * 65536)), "/pause")) < 8 * MIB
    with pytest.raises(ApplicationNotReady, match="xxx"):
        http_control.post(raw(flood(b"HTTP/1.1 503 No\r\n\r\n", b"x" * 65536)), "/pause")


@pytest.mark.parametrize(
    "pieces",
    [
        slowly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        slowly(OK, b"X"),
        slowly(OK, b"X: y\r\n"),
        slowly(OK + b"Content-Length: 100000\r\n\r\n", b" "),
        slowly(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        slowly(OK + b"\r\n", b" "),
    ],
    ids=[
        "only ever 100",
        "a header that drips",
        "headers that drip",
        "a body that drips",
        "chunks that drip",
        "a body without a length that drips",
    ],
)
def test_the_whole_answer_has_a_deadline(raw, monkeypatch, pieces):
    monkeypatch.setattr(http_control, "_SECONDS", 0.3)
    with pytest.raises(ApplicationNotReady, match=r"no whole answer within 0\.3 s"):
        http_control.post(raw(pieces), "/pause")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"k":' * 100_000, b'{"k": ' + b"9" * 10_000 + b"}"])
def test_json_that_is_nested_too_deeply_or_holds_a_number_too_large_is_no_answer(raw, body):
    url = raw(lambda: [OK + b"Content-Length: %d\r\n\r\n" % len(body), body])
    with pytest.raises(Damaged):
        http_control.store(url, "/state/{store}", "totals")
    assert http_control.reported(url, "/health").state is None
