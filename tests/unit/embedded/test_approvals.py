"""Approvals are answered at once, as a person may who has read the plan before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from embedded.airflow_client import AirflowClient

DAG, RUN, TASK = "streams_restore_full", "manual__1", "approve"


class Server(ThreadingHTTPServer):
    """An Airflow with one task that waits for an answer, and ends with it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: str | None = None


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        ended = self.server.answer is not None
        if self.path.endswith("/hitlDetails"):
            found = {"hitl_details": [{"body": "the plan", "task_instance": {"task_id": TASK}}]}
        elif self.path.endswith("/taskInstances"):
            found = {"task_instances": [{"task_id": TASK, "state": "success" if ended else "awaiting_input"}]}
        else:
            found = {"state": "success" if ended else "running"}
        self.reply(found)

    def do_PATCH(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        [self.server.answer] = sent["chosen_options"]
        self.reply({})

    def reply(self, document: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def wait(server: Server, *, approve: bool = True) -> str:
    """The run's end."""
    client = AirflowClient(f"http://127.0.0.1:{server.server_port}", "admin", "secret", {})
    try:
        return client.wait(DAG, RUN, seconds=30, on_change=lambda *_: None, approve=lambda body: approve and body == "the plan")
    finally:
        client.close()


@pytest.mark.parametrize(("approve", "answer"), [(True, "Approve"), (False, "Reject")])
def test_a_plan_is_answered_as_soon_as_it_is_there(server: Server, *, approve: bool, answer: str) -> None:
    assert wait(server, approve=approve) == "success"
    assert server.answer == answer
