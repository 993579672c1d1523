"""Talking to one instance over the HTTP interface that its configuration names."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

from streams_recovery.core.errors import ApplicationNotReady, NotFound

_SECONDS = 5.0
_QUERY_SECONDS = 60.0
_BUSY = 503


def streams_state(url: str, path: str) -> str | None:
    """The state the instance reports, ``PAUSED`` while it is paused, None when it does not answer. An unhealthy answer has a state too."""
    try:
        body = _call("GET", url, path, _SECONDS)
    except urllib.error.HTTPError as error:
        body = _parsed(error.read())
    except (OSError, ValueError):
        return None
    if not isinstance(body, dict):
        return None
    return "PAUSED" if body.get("paused") is True else str(body["state"]) if "state" in body else None


def post(url: str, path: str) -> None:
    """Ask for something to be done. Raises ``ApplicationNotReady``."""
    try:
        _call("POST", url, path, _SECONDS)
    except (OSError, ValueError) as error:
        raise ApplicationNotReady(
            f"{url}{path} failed: {error}", next_step="look at the instance's log; check the control section of the configuration", url=url
        ) from error


def store(url: str, template: str, name: str) -> dict[str, Any]:
    """Every key of a store as this instance holds it. Raises ``ApplicationNotReady`` while it rebalances, ``NotFound`` for an unknown store."""
    path = template.replace("{store}", quote(name, safe=""))
    try:
        body = _call("GET", url, path, _QUERY_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == _BUSY:
            raise ApplicationNotReady(f"{url}{path} is not ready", next_step="wait until it is RUNNING", url=url) from error
        raise NotFound(
            f"{url}{path} answered {error.code}: {error.read()[:200]!r}", next_step="check the store's name and the query path", url=url
        ) from error
    except (OSError, ValueError) as error:
        raise ApplicationNotReady(f"{url}{path} failed: {error}", next_step="look at the instance's log", url=url) from error
    if not isinstance(body, dict):
        raise ApplicationNotReady(f"{url}{path} did not answer with an object", next_step="check the query path", url=url)
    return body


def _call(method: str, url: str, path: str, seconds: float) -> Any:
    request = urllib.request.Request(url.rstrip("/") + path, method=method, data=b"" if method == "POST" else None)  # noqa: S310 - the configuration allows http(s) only
    with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
        return _parsed(answer.read())


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None
