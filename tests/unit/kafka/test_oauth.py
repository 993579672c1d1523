from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from streams_recovery.core.errors import BrokerUnavailable, ConfigInvalid
from streams_recovery.kafka.oauth import ClientCredentials


class Endpoint(HTTPServer):
    """A token endpoint that numbers its tokens and notes what it was asked."""

    answer: object = None
    asked: list[tuple[str, dict[str, str]]]
    expires_in = 3600


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((self.headers["Authorization"], dict(urllib.parse.parse_qsl(body))))
        token = {"access_token": f"token-{len(self.server.asked)}", "expires_in": self.server.expires_in}
        answer = json.dumps(self.server.answer or token).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
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


def test_files_are_not_endpoints(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigInvalid, match="file:///etc/passwd"):
        credentials(endpoint, **{"token.endpoint.url": "file:///etc/passwd"}).token()
