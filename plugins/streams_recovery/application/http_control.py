"""Talking to one instance over the HTTP interface that its configuration names. No redirects, no proxies: only the address as written."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

from streams_recovery.application.port import InstanceStatus
from streams_recovery.core.errors import ApplicationNotReady, ConfigInvalid, Damaged, NotFound

_SECONDS = 3.0
_QUERY_SECONDS = 60.0
_PIECE = 1 << 20
_OK = range(200, 300)
_NOT_FOUND = 404
_SERVER_ERRORS = range(500, 600)
# States in which being paused does not matter any more.
_ENDING = ("ERROR", "PENDING_ERROR", "PENDING_SHUTDOWN", "NOT_RUNNING")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What an instance says of itself. ``state`` is ``PAUSED`` while it works but is paused, None when it does not answer; ``restoring`` are the
    records that its stores still have to read, ``standby_tasks`` the tasks that it only keeps ready, each None when it does not tell.
    """

    state: str | None
    restoring: int | None = None
    standby_tasks: int | None = None

    def on(self, look: InstanceStatus) -> InstanceStatus:
        """What was seen of the instance from outside, with this."""
        return replace(look, streams_state=self.state, restoring=self.restoring, standby_tasks=self.standby_tasks)


_SILENT = Reported(state=None)


def reported(url: str, path: str) -> Reported:
    """Ask an instance how it is. The answer is ``{"state": ..., "paused": ..., "restoring": ..., "standby_tasks": ...}``, all but the first if it likes,
    with any status: an unhealthy instance has a state too.
    """
    try:
        _, body = _exchange("GET", url, path, _SECONDS)
        answer = json.loads(body)
    except (OSError, HTTPException, ValueError):
        return _SILENT
    state = answer.get("state") if isinstance(answer, dict) else None
    if not isinstance(state, str):
        return _SILENT
    return Reported(
        state="PAUSED" if answer.get("paused") is True and state not in _ENDING else state,
        restoring=_counted(answer.get("restoring")),
        standby_tasks=_counted(answer.get("standby_tasks")),
    )


def _counted(told: object) -> int | None:
    return told if type(told) is int and told >= 0 else None


def post(url: str, path: str) -> None:
    """Ask for something to be done. Raises ``ApplicationNotReady`` when it was not done, ``ConfigInvalid`` when there is no such path."""
    try:
        status, body = _exchange("POST", url, path, _SECONDS)
    except (OSError, HTTPException) as error:
        raise ApplicationNotReady(f"{url}{path} did not answer: {error}", next_step="look at the instance's log", url=url) from error
    if status in _SERVER_ERRORS:
        raise _not_ready(url, path, status, body)
    if status not in _OK:
        raise ConfigInvalid(
            f"{url}{path} answered {status}: {body[:200]!r}", next_step="correct the control section of the configuration", url=url
        )


def store(url: str, template: str, name: str) -> dict[str, object]:
    """Every key of a store as this instance holds it. Raises ``ApplicationNotReady`` while it rebalances or does not answer, ``NotFound`` for
    a store it does not have, ``Damaged`` when the answer is not one JSON object with each key once.
    """
    path = template.replace("{store}", quote(name, safe=""))
    try:
        status, body = _exchange("GET", url, path, _QUERY_SECONDS)
    except (OSError, HTTPException) as error:
        raise ApplicationNotReady(f"{url}{path} did not answer: {error}", next_step="look at the instance's log", url=url) from error
    if status in _SERVER_ERRORS:
        raise _not_ready(url, path, status, body)
    if status == _NOT_FOUND:
        raise NotFound(f"{url}{path} knows no store {name}", next_step="check the store's name and the query path", url=url, store=name)
    if status not in _OK:
        raise ConfigInvalid(f"{url}{path} answered {status}: {body[:200]!r}", next_step="check the query path", url=url)
    return json_object(body, where=f"{url}{path}")


def json_object(body: bytes, *, where: str) -> dict[str, object]:
    """The JSON object that ``body`` is. A key that is there twice is refused: the second value would silently replace the first."""
    try:
        found = json.loads(body, object_pairs_hook=_each_key_once)
    except ValueError as error:
        raise Damaged(f"{where} did not answer with a JSON object: {error}", next_step="check what answers a query", where=where) from error
    if not isinstance(found, dict):
        raise Damaged(
            f"{where} answered with a {type(found).__name__}", next_step="answer with an object, a field for each key", where=where
        )
    return found


def _each_key_once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key[:100]!r} is there twice")
        found[key] = value
    return found


def _not_ready(url: str, path: str, status: int, body: bytes) -> ApplicationNotReady:
    return ApplicationNotReady(
        f"{url}{path} answered {status}: {body[:200]!r}", next_step="wait until the instance is RUNNING, or look at its log", url=url
    )


def _exchange(method: str, url: str, path: str, seconds: float) -> tuple[int, bytes]:
    # A socket's timeout bounds one read only: an answer that drips would last for ever, so the whole has a deadline too.
    deadline = time.monotonic() + seconds
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        connection.request(method, parts.path.rstrip("/") + path, body=b"" if method == "POST" else None)
        answer = connection.getresponse()
        pieces = []
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            if time.monotonic() > deadline:
                raise TimeoutError(f"no whole answer within {seconds:g} s")
        if answer.length:
            raise ConnectionError(f"the answer broke off {answer.length} bytes before its end")
        return answer.status, b"".join(pieces)
    finally:
        connection.close()
