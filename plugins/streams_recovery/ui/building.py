"""The page, built once however many requests come first: its imports take seconds, and the event loop must not wait for them."""

from __future__ import annotations

import threading
from functools import cache
from typing import Final

from fastapi import FastAPI

_LOCK: Final = threading.Lock()


def built() -> FastAPI:
    """The page. To be called in a thread."""
    with _LOCK:
        return _build()


@cache
def _build() -> FastAPI:
    from streams_recovery.ui.app import build  # noqa: PLC0415  # takes seconds

    return build()
