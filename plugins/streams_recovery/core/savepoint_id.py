"""Ids of savepoints and restores: they sort by time, and tell which run made them."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{10}")


def new_id(at: int, run_id: str) -> str:
    """``20261121T012345Z-0123456789`` for a moment in milliseconds and a run. The same run gets the same suffix whenever it is repeated."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y%m%dT%H%M%SZ}-{run_suffix(run_id)}"


def run_suffix(run_id: str) -> str:
    """What ids of this run end with."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def is_id(text: str) -> bool:
    """True for text that has the form of an id."""
    return _ID.fullmatch(text) is not None
