"""Middleware that keeps answers to approvals until Airflow can take them.

A task that asks is over in its worker a moment later, and goes on in another one when it is answered. Its executor reports the end of the first half later
still: a supervisor may notice it only after ``workers.min_heartbeat_interval``. A report that comes when the second half is queued or running is taken for
that one's end, and the scheduler fails the task (``SchedulerJobRunner.process_executor_events``). Nothing in the API tells of the report, so an answer is
kept until the question is old enough. Airflow takes an answer to whatever the task asks by then, so what it asks is read again: an answer that was kept for
another question is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final

from streams_recovery.core.waiting import HEARD_SECONDS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_OURS: Final = re.compile(r"/api/v2/dags/streams_[^/]+/dagRuns/[^/]+/taskInstances/(?:[^/]+\.)?approve/-?\d+/hitlDetails$")
_OK: Final = 200
_CONFLICT: Final = 409
_CHANGED: Final = (
    b'{"detail": "Your answer was dropped: the run was cleared after it, and asks about a plan that you have not seen. Read that one."}'
)
# Headers of the answer itself, not of the question about it.
_OWN: Final = (b"content-length", b"content-type", b"accept-encoding")


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


class EarlyAnswers:
    """ASGI middleware. Passes everything on at once but answers to this package's approvals, which it keeps until their question is
    ``heartbeat_seconds`` and a few more old. An answer whose question is another one by then is refused.
    """

    def __init__(
        self,
        app: App,
        *,
        heartbeat_seconds: float,
        clock: Callable[[], datetime] = now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._app = app
        self._settled = heartbeat_seconds + HEARD_SECONDS
        self._clock = clock
        self._sleep = sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["method"] == "PATCH" and _OURS.search(scope["path"]):
            asked = await self._question(scope)
            early = self._too_early(asked)
            await self._sleep(early)
            if early and _identity(await self._question(scope)) != _identity(asked):
                headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_CHANGED)).encode())]
                await send({"type": "http.response.start", "status": _CONFLICT, "headers": headers})
                await send({"type": "http.response.body", "body": _CHANGED})
                return
        await self._app(scope, receive, send)

    def _too_early(self, asked: dict[str, Any] | None) -> float:
        """Seconds until the question is old enough. It is read with the rights of the user: Airflow turns a user away who may not see it."""
        if asked is None:
            return 0.0
        task = asked.get("task_instance")
        requested, begun = _moment(asked.get("created_at")), _moment(task.get("start_date") if isinstance(task, dict) else None)
        if requested is None:
            return 0.0
        # A question that is put again keeps its first time; it comes a little after its task's start.
        since = requested.timestamp() if begun is None or requested >= begun else begun.timestamp() + HEARD_SECONDS
        return min(2 * self._settled, max(0.0, self._settled - (self._clock().timestamp() - since)))

    async def _question(self, scope: Scope) -> dict[str, Any] | None:
        status, body = 0, bytearray()

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def collect(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            body.extend(message.get("body", b""))

        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _OWN]
        await self._app({**scope, "method": "GET", "headers": headers}, nothing, collect)
        try:
            found = json.loads(body) if status == _OK else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None


def _identity(asked: dict[str, Any] | None) -> object:
    """What makes a question the same one: what is asked, by which attempt of the task. None without a question."""
    if asked is None:
        return None
    task = asked.get("task_instance")
    return asked.get("subject"), asked.get("body"), task.get("id") if isinstance(task, dict) else None


def _moment(text: object) -> datetime | None:
    """None for what is no moment: an answer is never refused because of how another version of Airflow writes its question."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found is not None and found.tzinfo is None else found
