"""How often a cluster is asked again, how a token is obtained, and when the time is up."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError
from kafka import errors as pure
from kafka.net.compat import KafkaNetClient

from streams_recovery.core.errors import BrokerUnavailable, NotFound, Refused, TransientError
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.kafka import errors, logs, permissions
from streams_recovery.kafka.clients import ClientCredentials, Clients, Deadline, unhurried_client
from tests.support.kafka.scripted_clients import Script, ScriptedClients, future, refusal


def test_a_long_answer_is_read_without_a_word_on_the_screen(caplog: pytest.LogCaptureFixture) -> None:
    async def reads_a_long_answer() -> None:
        time.sleep(0.15)  # as a thousand partitions take

    def said(client: Any) -> list[str]:
        caplog.clear()
        client._net.start()
        client._manager.run(reads_a_long_answer)
        client._net.close()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    config = {"bootstrap_servers": ["127.0.0.1:1"], "client_id": "a"}
    assert any("event loop" in text for text in said(KafkaNetClient(**config))), "or this test proves nothing"
    assert said(unhurried_client(**config)) == []


def test_what_passes_is_asked_again() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.NotCoordinatorError("g"), pure.KafkaConnectionError("lost"), "answer"]))
    assert clients.patiently("asking", clients.pure.ask) == "answer"
    assert len(clients.pure.asked) == 3


def test_what_stays_is_an_error_when_the_time_is_up() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.NotCoordinatorError("g")] * 50), timeout=0.2)
    with pytest.raises(TransientError, match="asking failed"):
        clients.patiently("asking", clients.pure.ask)
    assert 2 <= len(clients.pure.asked) <= 4


def test_what_will_not_change_is_asked_once() -> None:
    clients = ScriptedClients(pure=Script(ask=[pure.UnknownTopicOrPartitionError("t")]))
    with pytest.raises(NotFound):
        clients.patiently("asking", clients.pure.ask)
    assert len(clients.pure.asked) == 1


def test_a_cluster_that_never_answered_is_not_asked_again() -> None:
    clients = ScriptedClients()
    calls: list[int] = []

    def ask() -> None:
        calls.append(1)
        raise errors.unavailable(clients.connection, "refused", timeout=1, connected=False)

    with pytest.raises(BrokerUnavailable, match="nowhere:1"):
        clients.patiently("asking", ask)
    assert calls == [1]


class Endpoint(HTTPServer):
    """A token endpoint that numbers its tokens and notes what it was asked."""

    answer: object = None
    asked: list[tuple[str, dict[str, str]]]
    expires_in = 3600
    redirect: tuple[int, str] | None = None
    spaces = 0


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], dict(urllib.parse.parse_qsl(body))))
        token = {"access_token": f"token-{len(self.server.asked)}", "expires_in": self.server.expires_in}
        whole = self.server.answer or token
        answer = b" " * self.server.spaces + (whole if isinstance(whole, bytes) else json.dumps(whole).encode())
        status, location = self.server.redirect or (200, "")
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(answer)

    def do_GET(self) -> None:
        self.server.asked.append((self.headers["Authorization"], {}))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as server:
        yield server


@contextmanager
def serving() -> Iterator[Endpoint]:
    with Endpoint(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def credentials(endpoint: Endpoint, **more: str) -> ClientCredentials:
    base = {"client.id": "me", "client.secret": "s:e/cret", "token.endpoint.url": f"http://127.0.0.1:{endpoint.server_port}/token"}
    return ClientCredentials({f"sasl.oauthbearer.{key}": value for key, value in {**base, **more}.items()})


@pytest.mark.fault("F58")
def test_a_token_is_asked_for_with_client_id_and_secret_and_used_until_it_ends(endpoint: Endpoint) -> None:
    provider = credentials(endpoint, scope="kafka read")
    assert [provider.token(), provider.token()] == ["token-1", "token-1"]
    ((authorization, form),) = endpoint.asked
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == "me:s%3Ae%2Fcret"
    assert form == {"grant_type": "client_credentials", "scope": "kafka read"}


def test_a_token_that_is_about_to_end_is_replaced(endpoint: Endpoint) -> None:
    endpoint.expires_in = 20
    provider = credentials(endpoint)
    assert [provider.token(), provider.token()] == ["token-1", "token-2"]


def test_extensions_are_pairs(endpoint: Endpoint) -> None:
    assert credentials(endpoint, extensions="logicalCluster=lkc-1, identityPoolId=pool=2").extensions() == {
        "logicalCluster": "lkc-1",
        "identityPoolId": "pool=2",
    }


@pytest.mark.parametrize("answer", [{"error": "invalid_client"}, ["x"], "text"])
def test_an_answer_without_a_token_is_an_error(endpoint: Endpoint, answer: object) -> None:
    endpoint.answer = answer
    with pytest.raises(BrokerUnavailable, match="no token") as caught:
        credentials(endpoint).token()
    assert "cret" not in str(caught.value).replace("client secret", "")


def test_an_endpoint_that_is_down_is_an_error(endpoint: Endpoint) -> None:
    provider = credentials(endpoint, **{"token.endpoint.url": "http://127.0.0.1:1/token"})
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        provider.token()


@pytest.mark.fault("F61")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_so_that_the_secret_goes_nowhere_else(endpoint: Endpoint, status: int) -> None:
    with serving() as elsewhere:
        endpoint.redirect = (status, f"http://127.0.0.1:{elsewhere.server_port}/token")
        with pytest.raises(BrokerUnavailable) as caught:
            credentials(endpoint).token()
        assert elsewhere.asked == []
        assert str(status) in str(caught.value)


@pytest.mark.fault("F61")
def test_an_endpoint_of_this_machine_is_not_asked_through_a_proxy(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        assert credentials(endpoint).token() == "token-1"
        assert proxy.asked == []


def test_an_answer_without_end_is_not_read_to_its_end(endpoint: Endpoint) -> None:
    endpoint.spaces = 2 << 20
    with pytest.raises(BrokerUnavailable, match="more than 1048576 bytes"):
        credentials(endpoint).token()


def test_an_answer_that_is_nested_too_deeply_is_no_token(endpoint: Endpoint) -> None:
    endpoint.answer = b"[" * 100_000
    with pytest.raises(BrokerUnavailable, match="no token"):
        credentials(endpoint).token()


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_pauses_end_exactly_at_the_deadline() -> None:
    clock = Clock()
    deadline = Deadline(1.0, clock=clock, sleep=clock.sleep)
    assert [deadline.pause(0.4) for _ in range(4)] == [True, True, True, False]
    assert clock.now == 101.0
    assert deadline.remaining == 0


def test_time_that_passes_elsewhere_counts() -> None:
    clock = Clock()
    deadline = Deadline(1.0, clock=clock, sleep=clock.sleep)
    clock.now += 5
    assert not deadline.pause()
    assert clock.slept == []
    assert deadline.remaining == 0


def test_no_time_is_no_pause() -> None:
    clock = Clock()
    assert not Deadline(0, clock=clock, sleep=clock.sleep).pause()
    assert clock.slept == []


class Silent:
    """librdkafka's client of a broker that is gone: it gives no answer until the time of the request is over. Notes the seconds it was given."""

    def __init__(self, *, attempts: int) -> None:
        self._left, self.given = attempts, list[float]()

    def __getattr__(self, verb: str) -> Callable[..., object]:
        def answer(*asked: Any, **named: Any) -> object:
            self.given.append(named.get("request_timeout", named.get("timeout")))
            self._left -= 1
            error = refusal(KafkaError._TIMED_OUT if self._left > 0 else KafkaError.TOPIC_AUTHORIZATION_FAILED)
            if verb == "list_topics":
                raise error
            return {one: future(error) for one in asked[0]}

        return answer


@pytest.mark.fault("F5")
@pytest.mark.parametrize(
    "question",
    [
        lambda clients: permissions.on_group(clients, "g"),
        lambda clients: logs.list_offsets(clients, [TopicPartition("t", 0)], logs.LATEST, IsolationLevel.READ_UNCOMMITTED),
        lambda clients: clients.patiently("asking", lambda: logs.read_in_force(clients, ["t"])),
        lambda clients: clients.patiently("asking", lambda: logs.read_broker_settings(clients, 1)),
        lambda clients: clients.patiently("asking", lambda: logs.read_topic_setting(clients, "t", "max.message.bytes")),
        lambda clients: clients.patiently("asking", lambda: list(logs.read_topics(clients, ["t"]))),
        lambda clients: clients.patiently("asking", lambda: logs.alter(clients, {"t": {"retention.ms": "1"}})),
    ],
    ids=["rights", "offsets", "settings", "broker settings", "one setting", "overrides", "changes"],
)
def test_no_attempt_waits_for_a_broker_that_is_gone_as_long_as_the_whole_question_may_last(question: Callable[[Clients], object]) -> None:
    client = Silent(attempts=3)
    clients = ScriptedClients(librdkafka=client, timeout=60)
    with pytest.raises(Refused):
        question(clients)
    assert len(client.given) >= 3
    assert max(client.given) <= 60 / 4


@pytest.mark.parametrize(("whole", "attempt"), [(60, 15), (12, 5), (3, 3)])
def test_an_attempt_is_not_shorter_than_a_slow_answer(whole: float, attempt: float) -> None:
    assert ScriptedClients(timeout=whole).attempt_timeout == attempt


@pytest.mark.fault("F5")
def test_a_broker_that_stays_silent_is_told_with_the_seconds_of_the_whole_question() -> None:
    clients = ScriptedClients(librdkafka=Silent(attempts=100), timeout=0.2)
    with pytest.raises(BrokerUnavailable, match=r"no answer from nowhere:1 within 0\.2 s") as caught:
        permissions.on_group(clients, "g")
    assert caught.value.facts == {"brokers": "nowhere:1", "timeout_seconds": 0.2, "connected": True}
