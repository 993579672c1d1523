"""Names of savepoints: they sort by time, and show which run made them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

_SUFFIX_CHARACTERS = 12


def new_id(at: int, run_id: str) -> str:
    """``20261121T012345Z-1f0c…``: a moment in epoch milliseconds, to the second, and a digest of the run. Equal input gives an equal id."""
    moment = datetime.fromtimestamp(at // 1000, tz=UTC)
    return f"{moment:%Y%m%dT%H%M%SZ}-{run_suffix(run_id)}"


def run_suffix(run_id: str) -> str:
    """What all savepoint ids of a run end with, however often its tasks are retried or cleared."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:_SUFFIX_CHARACTERS]


def made_by(savepoint_id: str, run_id: str) -> bool:
    """True when ``new_id`` made this id for this run."""
    return savepoint_id.rpartition("-")[2] == run_suffix(run_id)
