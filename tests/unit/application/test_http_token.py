"""Who talks to an instance shows a token, and shows it to nobody else."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streams_recovery.application import http_control
from streams_recovery.application.http_token import token_in
from streams_recovery.application.instances import Fleet
from streams_recovery.application.port import InstanceState, InstanceStatus
from streams_recovery.config.runs.process import Control
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid
from tests.support.kafka.secured_broker import Authority

TOKEN = "canary-4f2a"


@contextmanager
def serving(*, token=None, redirect=None, context=None):
    """A server on this machine, and the method, path and authorization of each request that it saw. With ``token`` it answers nobody else."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.command, self.path, self.headers.get("Authorization")))
            known = token is None or self.headers.get("Authorization") == f"Bearer {token}"
            self.send_response(307 if redirect else 200 if known else 401)
            if redirect:
                self.send_header("Location", redirect)
            self.end_headers()
            self.wfile.write(b'{"state": "RUNNING"}' if known else b"no")

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


def ask_everything(url, token):
    http_control.reported(url, "/health", token=token)
    http_control.post(url, "/pause", token=token)
    http_control.store(url, "/state/{store}", "totals", token=token)


def test_every_request_carries_the_token_and_none_without_one():
    with serving(token=TOKEN) as (url, seen):
        ask_everything(url, TOKEN)
        assert {authorization for _, _, authorization in seen} == {f"Bearer {TOKEN}"}
        assert len(seen) == 3
    with serving() as (url, seen):
        ask_everything(url, None)
        assert {authorization for _, _, authorization in seen} == {None}


def test_who_does_not_know_the_token_is_told_what_to_set_and_sees_no_token():
    with serving(token=TOKEN) as (url, _):
        found = http_control.reported(url, "/health")
        assert (found.state, found.problem) == (None, f"{url}/health answers 401")
        for ask in (
            lambda: http_control.post(url, "/pause", token="wrong"),
            lambda: http_control.store(url, "/s/{store}", "x", token="wrong"),
        ):
            with pytest.raises(ConfigInvalid, match="answered 401") as caught:
                ask()
            assert "control.token_file" in caught.value.next_step
            assert "wrong" not in str(caught.value)


@pytest.mark.fault("F61")
def test_a_redirect_takes_the_token_nowhere():
    with serving() as (elsewhere, seen), serving(redirect=f"{elsewhere}/here") as (url, asked):
        assert http_control.reported(url, "/health", token=TOKEN).state == "RUNNING"
        for ask in (lambda: http_control.post(url, "/pause", token=TOKEN), lambda: http_control.store(url, "/s", "x", token=TOKEN)):
            with pytest.raises(ConfigInvalid, match="answered 307"):
                ask()
        assert len(asked) == 3
        assert seen == []


@pytest.mark.fault("F61")
def test_an_instance_with_a_certificate_of_nobody_gets_no_token(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority(tmp_path, "nobody").issue("server"))
    with serving(context=context) as (url, seen):
        assert http_control.reported(url, "/health", token=TOKEN).state is None
        with pytest.raises(ApplicationNotReady, match=r"(?i)certificate"):
            http_control.post(url, "/pause", token=TOKEN)
        assert seen == []


def test_an_instance_with_a_certificate_is_asked(tmp_path, monkeypatch):
    authority = Authority(tmp_path, "somebody")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with serving(token=TOKEN, context=context) as (url, _):
        assert http_control.reported(url, "/health", token=TOKEN).state == "RUNNING"


# The file


def test_a_token_is_read_anew_each_time(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert token_in(str(file)) == TOKEN
    file.write_text("another==")
    assert token_in(str(file)) == "another=="
    assert token_in(None) is None


@pytest.mark.parametrize(
    "content", ["", "\n", "two words", "two\nlines", "canary\r\nHost: elsewhere", "canary\N{SNOWMAN}", "=canary", "canary" * 2000]
)
def test_what_could_not_be_sent_is_no_token_and_is_not_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_text(content)
    if len(content) > 8192:
        file.write_text("x " + content)
    with pytest.raises(ConfigInvalid, match="holds no token") as caught:
        token_in(str(file))
    assert "canary" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigInvalid, match="nothing-here cannot be read"):
        token_in(str(tmp_path / "nothing-here"))


# The way there


def standing():
    return (InstanceStatus(name="one", state=InstanceState.RUNNING, streams_state=None, closed_cleanly=None, detail=""),)


@pytest.mark.fault("F61")
def test_plain_http_to_another_machine_is_refused_unless_the_configuration_says_so():
    urls = {"one": "http://order-processor:18081"}
    with pytest.raises(ConfigInvalid, match=r"plain http to another machine.*control\.allow_http"):
        Fleet(urls=urls, control=Control(), statuses=standing)
    Fleet(urls=urls, control=Control(allow_http=True), statuses=standing)
    Fleet(urls={"one": "https://order-processor:18081", "two": "http://127.0.0.1:1"}, control=Control(), statuses=standing)


def test_a_token_that_cannot_be_read_is_no_silence(tmp_path):
    fleet = Fleet(urls={"one": "http://127.0.0.1:9"}, control=Control(token_file=str(tmp_path / "none")), statuses=standing)
    for ask in (lambda: fleet.reports(["one"]), fleet.pause, fleet.resume):
        with pytest.raises(ConfigInvalid, match="token file"):
            ask()
