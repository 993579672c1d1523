"""An answer to an approval is kept until its question is old enough for Airflow to take it, and everything else passes at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams_recovery.ui.early_answers import EarlyAnswers

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)
OURS = "/api/v2/dags/streams_restore_full/dagRuns/manual__2026-11-22T12:00:00+00:00/taskInstances/approve/-1/hitlDetails"


class Server:
    """An API server with one question, which was put so many seconds ago by a task that began a second before, or later when it is put again."""

    def __init__(self, *, asked: float = 1.0, begun: float | None = None, status: int = 200) -> None:
        begun = asked + 1 if begun is None else begun
        ago = {name: (NOW - timedelta(seconds=seconds)).isoformat() for name, seconds in (("asked", asked), ("begun", begun))}
        self.question = {"created_at": ago["asked"], "task_instance": {"start_date": ago["begun"]}}
        self.status = status
        self.seen: list[tuple[str, bytes]] = []
        self.slept: list[float] = []
        self.meanwhile: Callable[[], None] = lambda: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append((scope["method"], (await receive())["body"]))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(self.question).encode()})

    def ask(self, *, path: str = OURS, method: str = "PATCH") -> list[Any]:
        """One request through the middleware. What was sent back."""
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"the answer", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.meanwhile()

        scope = {"type": "http", "method": method, "path": path, "headers": [(b"authorization", b"x"), (b"content-length", b"10")]}
        asyncio.run(EarlyAnswers(self, heartbeat_seconds=5, clock=lambda: NOW, sleep=sleep)(scope, receive, send))
        return sent


@pytest.mark.parametrize(
    ("asked", "begun", "kept"),
    [(1.0, None, 9.0), (9.5, None, 0.5), (10.0, None, 0.0), (3_600.0, None, 0.0), (3_600.0, 2.0, 13.0), (-900.0, None, 20.0)],
    ids=["early", "nearly", "settled", "late", "put again", "a clock that is behind"],
)
def test_an_answer_comes_through_once_its_question_is_old_enough(asked: float, begun: float | None, kept: float) -> None:
    server = Server(asked=asked, begun=begun)
    assert [message["type"] for message in server.ask()] == ["http.response.start", "http.response.body"], "one answer to one request"
    assert server.slept == [pytest.approx(kept)]
    assert server.seen == [("GET", b"")] * (2 if kept else 1) + [("PATCH", b"the answer")]


@pytest.mark.parametrize(
    "replaced",
    [{"body": "Delete another topic."}, {"subject": "Restore something else?"}, {"task_instance": {"id": "a later attempt"}}, {}],
    ids=["another plan", "another subject", "the run was cleared", "not asked again yet"],
)
def test_an_answer_that_was_kept_is_never_given_to_another_question(replaced: dict[str, Any]) -> None:
    server = Server()
    server.question |= {"subject": "Restore?", "body": "Delete a topic."}
    server.question["task_instance"]["id"] = "an attempt"

    def clear() -> None:
        server.question = server.question | replaced
        server.status = 200 if replaced else 404

    server.meanwhile = clear
    start, body = server.ask()
    assert start["status"] == 409
    assert "dropped" in json.loads(body["body"])["detail"]
    assert [method for method, _ in server.seen] == ["GET", "GET"], "no answer has reached Airflow"


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (OURS, "GET"),
        (OURS.replace("streams_restore_full", "somebody_elses"), "PATCH"),
        (OURS.replace("/approve/", "/another/"), "PATCH"),
        ("/api/v2/dags", "PATCH"),
    ],
)
def test_everything_else_passes_at_once(path: str, method: str) -> None:
    server = Server()
    server.ask(path=path, method=method)
    assert (server.slept, server.seen) == ([], [(method, b"the answer")])


@pytest.mark.parametrize("group", ["clone.", "cut_over.", "retire."])
def test_approvals_inside_groups_are_kept_too(group: str) -> None:
    server = Server()
    server.ask(path=OURS.replace("/approve/", f"/{group}approve/"))
    assert server.slept == [pytest.approx(9.0)]


def test_whoever_may_not_ask_is_turned_away_at_once() -> None:
    server = Server(status=403)
    assert server.ask()[0]["status"] == 403
    assert server.slept == [0.0]


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        (None, 0.0),
        ([], 0.0),
        ({"created_at": "soon"}, 0.0),
        ({"created_at": 5, "task_instance": []}, 0.0),
        ({"created_at": NOW.isoformat(), "task_instance": None}, 10.0),
        ({"created_at": NOW.replace(tzinfo=None).isoformat(), "task_instance": {"start_date": NOW.isoformat()}}, 10.0),
    ],
)
def test_a_question_that_is_written_in_another_way_keeps_nobody_from_answering(question: Any, kept: float) -> None:
    server = Server()
    server.question = question
    server.ask()
    assert server.slept == [pytest.approx(kept)]
    assert [method for method, _ in server.seen if method != "GET"] == ["PATCH"]
