"""The ping: one request to the address as it is written, no redirect, and no secret in what is said of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from streams_recovery.operations.status.cluster import ping


class Service(BaseHTTPRequestHandler):
    """Answers by the path."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Service.asked.append(self.path)
        code = {"/moved": 302, "/broken": 500}.get(self.path, 200)
        self.send_response(code)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"OK")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    Service.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/secret-token", "/secret-token?state=up", "/"])
def test_the_address_is_requested_as_it_is_written(address: str, path: str) -> None:
    assert ping(address + path) is None
    assert Service.asked == [path]


@pytest.mark.parametrize(("path", "said"), [("/moved", "127.0.0.1 answered 302"), ("/broken", "127.0.0.1 answered 500")])
def test_anything_but_success_is_no_success_and_nothing_is_followed(address: str, path: str, said: str) -> None:
    assert ping(address + path) == said
    assert Service.asked == [path]


def test_a_service_that_is_not_there_is_named_without_its_path() -> None:
    problem = ping("http://127.0.0.1:9/secret-token")
    assert problem is not None
    assert problem.startswith("127.0.0.1: ")
    assert "secret-token" not in problem
