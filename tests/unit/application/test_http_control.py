"""An instance that answers without end, with too much or with nonsense costs neither time nor memory without a limit.

Who talks to an instance shows a token, and shows it to nobody else.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import traceback
import tracemalloc
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streams_recovery.application import http_control
from streams_recovery.application.http_control import token_in
from streams_recovery.application.port import AnswerTooLarge, NoKeyRoute
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, NotFound
from streams_recovery.core.state.key_query import KeyAnswer, KeyQuestion, NamedOwner
from tests.support.kafka.secured_broker import Authority


@contextmanager
def served(handler, context=None):
    """The address of a server on this machine whose requests this class handles."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Silent(BaseHTTPRequestHandler):
    """Answers what is posted as it answers what is got."""

    def do_POST(self):
        self.do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def answering():
    """Starts a server whose every answer is the given one and yields its address and the requests it saw."""
    with ExitStack() as servers:

        def start(status=200, body=b"{}", headers=(), length=None, drip=0.0):
            seen = []

            class Handler(Silent):
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

            return servers.enter_context(served(Handler)), seen

        yield start


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


KEY, OWNER = "/state/{store}/{key}", "/owner/{store}/{key}"
ALICE = KeyQuestion(store="totals", key="alice")


def asked(url, question=ALICE):
    return http_control.key(url, KEY, question, instance="one")


def test_a_key_its_path_and_its_bounds(answering):
    url, seen = answering(200, b'{"found": true, "value": {"a": [1]}}')
    assert asked(f"{url}/base", KeyQuestion(store="{key}", key="a/b ü?{store}", start=1, end=2)).value == {"a": [1]}
    assert seen == [("GET", "/base/state/%7Bkey%7D/a%2Fb%20%C3%BC%3F%7Bstore%7D?from=1&to=2")]


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (404, b'{"found": false}', KeyAnswer(instance="one", found=False)),
        (200, b'{"found": false, "value": 1}', KeyAnswer(instance="one", found=False)),
        (200, b'{"found": true, "value": null}', KeyAnswer(instance="one", found=True)),
        (421, b"whatever", None),
    ],
)
def test_no_such_key_is_an_answer_and_another_instances_key_is_none(answering, status, body, found):
    url, _ = answering(status, body)
    assert asked(url) == found


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"error": "no store totals"}', NoKeyRoute),
        (404, b"<html>", NoKeyRoute),
        (404, b'{"found": true, "value": 1}', NoKeyRoute),
        (400, b'{"found": false}', NoKeyRoute),
        (501, b"", NoKeyRoute),
        (200, b'{"alice": 4}', NoKeyRoute),
        (200, b"<html>", Damaged),
        (200, b"[]", Damaged),
        (200, b'{"found": true}', Damaged),
        (200, b'{"found": true, "found": true, "value": 1}', Damaged),
        (200, b"[" * 100_000, Damaged),
        (401, b"", ConfigInvalid),
        (302, b"", ConfigInvalid),
        (307, b'{"found": true, "value": 1}', ConfigInvalid),
        (503, b'{"found": true, "value": 1}', ApplicationNotReady),
    ],
)
def test_what_is_no_answer_to_a_query_by_key(answering, status, body, kind):
    trap, followed = answering(200, b'{"found": true, "value": "from elsewhere"}')
    url, _ = answering(status, body, headers=[("Location", trap)])
    with pytest.raises(kind) as caught:
        asked(url)
    assert type(caught.value) is kind
    assert followed == [], "no redirect is followed"


def test_a_redirect_to_itself_is_asked_once(answering):
    url, seen = answering(302, b"", headers=[("Location", "/state/totals/alice")])
    with pytest.raises(ConfigInvalid):
        asked(url)
    with pytest.raises(ConfigInvalid):
        http_control.owner(url, OWNER, ALICE)
    assert seen == [("GET", "/state/totals/alice"), ("GET", "/owner/totals/alice")]


def test_an_answer_of_more_than_is_read_of_one_key_is_too_large(answering):
    url, _ = answering(200, b'{"found": true, "value": "' + b"x" * (4 << 20) + b'"}')
    with pytest.raises(AnswerTooLarge, match="4194304 bytes"):
        asked(url)
    url, _ = answering(200, b'{"host": "a", "port": 1, "more": "' + b"x" * (1 << 16) + b'"}')
    with pytest.raises(AnswerTooLarge, match="65536 bytes"):
        http_control.owner(url, OWNER, ALICE)
    # Of a 404 it is not known what its end says.
    url, _ = answering(404, b'{"found": false, "value": "' + b"x" * (4 << 20) + b'"}')
    with pytest.raises(NoKeyRoute):
        asked(url)


def test_an_owner_is_named_or_not(answering):
    url, seen = answering(200, b'{"host": "10.0.0.7", "port": 8080, "partition": 3, "standbys": []}')
    assert http_control.owner(url, OWNER, ALICE) == NamedOwner(host="10.0.0.7", port=8080)
    assert seen == [("GET", "/owner/totals/alice")]
    url, _ = answering(404, b'{"error": "application.server is not set"}')
    assert http_control.owner(url, OWNER, ALICE) is None
    url, _ = answering(200, b'{"host": "10.0.0.7"}')
    with pytest.raises(Damaged):
        http_control.owner(url, OWNER, ALICE)
    url, _ = answering(503, b"")
    with pytest.raises(ApplicationNotReady):
        http_control.owner(url, OWNER, ALICE)


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


def slowly(head, piece, pause=0.02):
    def pieces():
        yield head
        while True:
            time.sleep(pause)
            yield piece

    return pieces


def flood(head, piece):
    return slowly(head, piece, pause=0)


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


CANARY = "canary-4f2a"


@contextmanager
def serving(*, token=None, redirect=None, context=None):
    """A server on this machine, and the method, path and authorization of each request that it saw. With ``token`` it answers nobody else."""
    seen = []

    class Handler(Silent):
        def do_GET(self):
            seen.append((self.command, self.path, self.headers.get("Authorization")))
            known = token is None or self.headers.get("Authorization") == f"Bearer {token}"
            self.send_response(307 if redirect else 200 if known else 401)
            if redirect:
                self.send_header("Location", redirect)
            self.end_headers()
            self.wfile.write(b'{"state": "RUNNING"}' if known else b"no")

    with served(Handler, context) as url:
        yield url, seen


def ask_everything(url, token):
    http_control.reported(url, "/health", token=token)
    http_control.post(url, "/pause", token=token)
    http_control.store(url, "/state/{store}", "totals", token=token)


def test_every_request_carries_the_token_and_none_without_one():
    with serving(token=CANARY) as (url, seen):
        ask_everything(url, CANARY)
        assert {authorization for _, _, authorization in seen} == {f"Bearer {CANARY}"}
        assert len(seen) == 3
    with serving() as (url, seen):
        ask_everything(url, None)
        assert {authorization for _, _, authorization in seen} == {None}


def test_who_does_not_know_the_token_is_told_what_to_set_and_sees_no_token():
    with serving(token=CANARY) as (url, _):
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
        assert http_control.reported(url, "/health", token=CANARY).state == "RUNNING"
        for ask in (
            lambda: http_control.post(url, "/pause", token=CANARY),
            lambda: http_control.store(url, "/s", "x", token=CANARY),
        ):
            with pytest.raises(ConfigInvalid, match="answered 307"):
                ask()
        assert len(asked) == 3
        assert seen == []


@pytest.mark.fault("F61")
def test_an_instance_with_a_certificate_of_nobody_gets_no_token(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority(tmp_path, "nobody").issue("server"))
    with serving(context=context) as (url, seen):
        assert http_control.reported(url, "/health", token=CANARY).state is None
        with pytest.raises(ApplicationNotReady, match=r"(?i)certificate"):
            http_control.post(url, "/pause", token=CANARY)
        assert seen == []


def test_an_instance_with_a_certificate_is_asked(tmp_path, monkeypatch):
    authority = Authority(tmp_path, "somebody")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with serving(token=CANARY, context=context) as (url, _):
        assert http_control.reported(url, "/health", token=CANARY).state == "RUNNING"


# The file


def test_a_token_is_read_anew_each_time(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"  {CANARY}\n")
    assert token_in(str(file)) == CANARY
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
