"""A request to an address outside that expects one after each look: what misses it can say that Airflow itself is dead."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from streams_recovery.application.http_exchange import exchange

_SECONDS: Final = 10.0
_LIMIT: Final = 1_000


def ping(url: str) -> str | None:
    """Request the address; why that failed, None when it did not. No redirect is followed. The path may be a secret, so only the host is named."""
    parts = urlsplit(url)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        answer = exchange("GET", parts._replace(path="", query="", fragment="").geturl(), path, seconds=_SECONDS, limit=_LIMIT)
    except (OSError, HTTPException) as error:
        return f"{parts.hostname}: {error or type(error).__name__}"
    good = HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES
    return None if good else f"{parts.hostname} answered {answer.status}"
