from __future__ import annotations

import json
import socket
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streams_recovery.application import http_control
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, NotFound


@pytest.fixture
def answering():
    """Starts a server whose every answer is the given one and yields its address and the requests it saw."""
    servers = []

    def start(status=200, body=b"{}", headers=(), length=None, drip=0.0):
        seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.command, self.path))
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
                for position in range(len(body)) if drip else ():
                    self.wfile.write(body[position : position + 1])
                    time.sleep(drip)
                if not drip:
                    self.wfile.write(body)

            def do_POST(self):
                self.do_GET()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "state"),
    [
        (200, b'{"state": "RUNNING", "paused": false}', "RUNNING"),
        (200, b'{"state": "RUNNING"}', "RUNNING"),
        (200, b'{"state": "RUNNING", "paused": true}', "PAUSED"),
        (200, b'{"state": "REBALANCING", "paused": true}', "PAUSED"),
        (503, b'{"state": "ERROR", "paused": false}', "ERROR"),
        (503, b'{"state": "ERROR", "paused": true}', "ERROR"),
        (200, b'{"state": "RUNNING", "paused": "yes"}', "RUNNING"),
        (200, b'{"state": null}', None),
        (200, b"{}", None),
        (200, b"RUNNING", None),
        (200, b'["RUNNING"]', None),
        (200, b"\xff", None),
        (404, b"not found", None),
    ],
)
def test_states(answering, status, body, state):
    url, seen = answering(status, body)
    assert http_control.reported(url, "/health").state == state
    assert seen == [("GET", "/health")]


@pytest.mark.parametrize(
    ("told", "left"),
    [(b"0", 0), (b"12", 12), (b"null", None), (b"-1", None), (b"true", None), (b'"12"', None), (b"1.5", None)],
)
@pytest.mark.parametrize("what", ["restoring", "standby_tasks"])
def test_what_is_left_to_restore_and_what_is_kept_ready_is_a_number_or_unknown(answering, what, told, left):
    url, _ = answering(503, b'{"state": "REBALANCING", "%s": %s}' % (what.encode(), told))
    assert http_control.reported(url, "/health") == http_control.Reported(state="REBALANCING", **{what: left})


def test_nobody_there_is_no_state_and_not_ready():
    assert http_control.reported("http://127.0.0.1:9", "/health").state is None
    with pytest.raises(ApplicationNotReady, match="did not answer"):
        http_control.post("http://127.0.0.1:9", "/pause")
    with pytest.raises(ApplicationNotReady, match="did not answer"):
        http_control.store("http://127.0.0.1:9", "/state/{store}", "totals")


@pytest.mark.parametrize(
    ("status", "kind"), [(503, ApplicationNotReady), (500, ApplicationNotReady), (404, ConfigInvalid), (302, ConfigInvalid)]
)
def test_a_post_that_was_not_done(answering, status, kind):
    url, _ = answering(status, b"why", headers=[("Location", "http://127.0.0.1:9/")])
    with pytest.raises(kind, match="why"):
        http_control.post(url, "/pause")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (503, b"rebalancing", ApplicationNotReady),
        (404, b"", NotFound),
        (302, b"", ConfigInvalid),
        (200, b"[]", Damaged),
        (200, b"null", Damaged),
        (200, b"{", Damaged),
        (200, b'{"k": 1, "k": 1}', Damaged),
        (200, b"", Damaged),
    ],
)
def test_a_store_that_is_no_answer(answering, status, body, kind):
    url, _ = answering(status, body, headers=[("Location", "http://127.0.0.1:9/")])
    with pytest.raises(kind):
        http_control.store(url, "/state/{store}", "totals")


def test_a_store_and_its_path(answering):
    url, seen = answering(200, b'{"": null, "k": {"a": [1]}}')
    assert http_control.store(f"{url}/base/", "/state/{store}", "a/b c?") == {"": None, "k": {"a": [1]}}
    assert seen == [("GET", "/base/state/a%2Fb%20c%3F")]


def test_an_answer_that_breaks_off_may_be_asked_for_again(answering):
    url, _ = answering(200, b'{"k": 1}', length=100)
    with pytest.raises(ApplicationNotReady, match="bytes too early"):
        http_control.store(url, "/state/{store}", "totals")


def test_an_answer_that_drips_has_an_end(answering, monkeypatch):
    monkeypatch.setattr(http_control, "_SECONDS", 0.2)
    # Whole it would be a good answer, after ten seconds.
    url, _ = answering(200, b'{"state": ' + b" " * 500 + b'"RUNNING"}', drip=0.02)
    assert http_control.reported(url, "/health").state is None


def test_no_proxy_is_asked(answering, monkeypatch):
    proxy, asked = answering(200, b'{"state": "FROM THE PROXY"}')
    url, _ = answering(200, b'{"state": "RUNNING"}')
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("ALL_PROXY", proxy)
    assert http_control.reported(url, "/health").state == "RUNNING"
    assert asked == []


TOKEN = "abcdefgh+/0123456789=="


@pytest.mark.parametrize("echoed", [TOKEN, TOKEN.replace("/", "\\/"), "abcdefgh%2B/0123456789%3D%3D"])
@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_token_that_a_peer_repeats_is_not_shown(answering, status, echoed):
    url, _ = answering(status=status, body=b"x" * 180 + f"Bearer {echoed}".encode())
    with pytest.raises((ApplicationNotReady, ConfigInvalid)) as caught:
        http_control.post(url, "/pause", token=TOKEN)
    assert "abcdefgh" not in str(caught.value)
    assert "***" in str(caught.value)


def test_a_state_is_no_place_for_a_token(answering):
    url, _ = answering(body=json.dumps({"state": TOKEN, "commit_interval_ms": 2**63, "restoring": 2**70}).encode())
    found = http_control.reported(url, "/health", token=TOKEN)
    assert (found.state, found.commit_interval_ms, found.restoring) == ("***", None, None)


def test_a_token_in_place_of_an_answer_is_not_in_the_traceback():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connected, _ = server.accept()
            with connected:
                connected.recv(65_536)
                connected.sendall(f"{TOKEN}\r\n\r\n".encode())

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ApplicationNotReady) as caught:
            http_control.post(f"http://127.0.0.1:{server.getsockname()[1]}", "/pause", token=TOKEN)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
