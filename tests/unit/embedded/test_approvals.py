"""Approvals are answered when the scheduler knows that the task's process is gone: before that it would take the answered task for a failed one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from embedded import airflow_client
from embedded.airflow import Airflow
from embedded.airflow_client import AirflowClient
from embedded.processes import Processes
from embedded.stack import Ports, Stack

DAG, RUN, TASK = "streams_restore_full", "manual__1", "approve"
LINE = "[info] TaskInstance Finished: dag_id={}, task_id={}, run_id={}, map_index=-1, state=awaiting_input\n"


class Server(ThreadingHTTPServer):
    """An Airflow with one task that waits for an answer, and ends with it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: str | None = None
        self.asked = 0
        self.asked_before_answer = 0


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
        self.server.asked_before_answer = self.server.asked
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


def wait(server: Server, reported_from: int, *, approve: bool = True) -> str:
    """The run's end, where the scheduler has heard of the task when it is asked for the so manieth time."""

    def reported(dag_id: str, run_id: str, task_id: str) -> bool:
        assert (dag_id, run_id, task_id) == (DAG, RUN, TASK)
        server.asked += 1
        return server.asked >= reported_from

    client = AirflowClient(f"http://127.0.0.1:{server.server_port}", "admin", "secret", {}, reported=reported)
    try:
        return client.wait(DAG, RUN, seconds=30, told=lambda *_: None, approve=lambda body: approve and body == "the plan")
    finally:
        client.close()


@pytest.mark.parametrize("reported_from", [1, 4])
def test_an_answer_waits_for_the_scheduler(server: Server, reported_from: int) -> None:
    assert wait(server, reported_from) == "success"
    assert (server.answer, server.asked_before_answer) == ("Approve", reported_from)


def test_a_plan_can_be_rejected(server: Server) -> None:
    wait(server, 1, approve=False)
    assert server.answer == "Reject"


def test_a_scheduler_that_says_nothing_is_not_waited_for_without_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_client, "_REPORT_SECONDS", 0.3)  # a minute in a test of seconds
    wait(server, 10**9)
    assert server.answer == "Approve"


@pytest.mark.parametrize(
    ("line", "heard"),
    [
        (LINE.format(DAG, TASK, RUN), True),
        (LINE.format(DAG, "plan", RUN), False),
        (LINE.format(DAG, TASK, "manual__10"), False),
        (LINE.format("streams_undo", TASK, RUN), False),
        ("", False),
    ],
)
def test_the_schedulers_log_tells_what_it_has_heard(tmp_path: Path, line: str, heard: bool) -> None:
    processes = Processes(tmp_path)
    processes.log("airflow-scheduler").write_text(f"it began\n{line}it went on\n")
    ports = Ports(broker=1, controller=2, instances=(3, 4), airflow=5, drill=6)
    airflow = Airflow(Stack(directory=tmp_path, ports=ports, guarantee="exactly_once_v2"), processes)
    assert airflow._reported(DAG, RUN, TASK) is heard
