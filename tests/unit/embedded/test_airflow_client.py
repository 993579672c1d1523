"""The client of Airflow's API: a database that is busy, and plans that are answered at once, as a person may who has read them before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TypeVar

import pytest

from embedded import airflow_client
from embedded.airflow_client import AirflowClient
from streams_recovery.core.errors import ApplicationNotReady, Refused

HANGS_UP = 0


class Server(ThreadingHTTPServer):
    """Gives these answers to requests, one after the other, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.sent: list[dict[str, object]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        status = self.server.answers.pop(0)
        if status == HANGS_UP:
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b'{"detail": "database is locked"}')

    do_PATCH = do_POST  # noqa: N815  # the name that http.server looks for

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


Served = TypeVar("Served", bound=ThreadingHTTPServer)


@contextmanager
def serving(server: Served) -> Iterator[Served]:
    with server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as found:
        yield found


@pytest.fixture
def client(server: Server) -> Iterator[AirflowClient]:
    found = AirflowClient(f"http://127.0.0.1:{server.server_port}", "admin", "secret", {})
    yield found
    found.close()


@pytest.mark.parametrize("answers", [[500, 200], [404, 503, 200], [500, 409], [HANGS_UP, 409]])
def test_a_run_is_triggered_once_whatever_became_of_the_answer(server: Server, client: AirflowClient, answers: list[int]) -> None:
    server.answers = list(answers)
    run_id = client.trigger("a_dag", {"reason": "test"})
    assert [sent["dag_run_id"] for sent in server.sent] == [run_id] * len(answers)


def test_params_that_do_not_fit_are_not_sent_again(server: Server, client: AirflowClient) -> None:
    server.answers = [400]
    with pytest.raises(Refused, match="a_dag was not triggered"):
        client.trigger("a_dag", {})
    assert len(server.sent) == 1


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [(500, Refused, "database is locked"), (HANGS_UP, ApplicationNotReady, "dagRuns was not answered")],
    ids=["a database that stays busy", "a server that never answers"],
)
def test_what_lasts_is_told(
    server: Server, client: AirflowClient, monkeypatch: pytest.MonkeyPatch, answer: int, error: type[Exception], said: str
) -> None:
    monkeypatch.setattr(airflow_client, "_BUSY_SECONDS", 1.0)  # a minute and a half in a test of seconds
    server.answers = [answer] * 5
    with pytest.raises(error, match=said):
        client.trigger("a_dag", {})


# Tells the server of itself; its exit status is what the server answers, less 200.
TERMINAL = """
import json, sys, urllib.error, urllib.request
asked = urllib.request.Request({url!r}, json.dumps({{"command": sys.argv[1:3]}}).encode())
try:
    sys.exit(urllib.request.urlopen(asked).status - 200)
except urllib.error.HTTPError as error:
    sys.exit(error.code - 200)
"""


def test_no_run_of_a_backfill_begins_before_all_of_them_are_there(server: Server, tmp_path: Path) -> None:
    command = tmp_path / "airflow" / "__main__.py"
    command.parent.mkdir()
    command.with_name("__init__.py").touch()
    command.write_text(TERMINAL.format(url=f"http://127.0.0.1:{server.server_port}"))
    client = AirflowClient(f"http://127.0.0.1:{server.server_port}", "admin", "secret", {"PYTHONPATH": str(tmp_path)})
    server.answers = [200, 300, 200, 200]
    client.backfill("a_dag", "2026-01-01", "2026-01-02", conf={}, max_active_runs=1)
    attempt = {"command": ["backfill", "create"]}
    assert server.sent == [{"is_paused": True}, attempt, attempt, {"is_paused": False}]
    client.close()


DAG, RUN, TASK = "streams_restore_full", "manual__1", "approve"


class WaitingAirflow(ThreadingHTTPServer):
    """An Airflow with one task that waits for an answer, and ends with it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WaitingHandler)
        self.answer: str | None = None


class WaitingHandler(BaseHTTPRequestHandler):
    server: WaitingAirflow

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
def waiting() -> Iterator[WaitingAirflow]:
    with serving(WaitingAirflow()) as found:
        yield found


def wait(waiting: WaitingAirflow, *, approve: bool = True) -> str:
    """The run's end."""
    client = AirflowClient(f"http://127.0.0.1:{waiting.server_port}", "admin", "secret", {})
    try:
        return client.wait(DAG, RUN, seconds=30, on_change=lambda *_: None, approve=lambda body: approve and body == "the plan")
    finally:
        client.close()


@pytest.mark.parametrize(("approve", "answer"), [(True, "Approve"), (False, "Reject")])
def test_a_plan_is_answered_as_soon_as_it_is_there(waiting: WaitingAirflow, *, approve: bool, answer: str) -> None:
    assert wait(waiting, approve=approve) == "success"
    assert waiting.answer == answer
