"""Ids of savepoints and restores: they sort by time, and tell which run made them."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta

# Also for JSON schemas, so only what both dialects of regular expressions know.
PATTERN = r"\d{8}T\d{6}Z-[0-9a-f]{10}"
_ID = re.compile(PATTERN)


_TIME = "%Y%m%dT%H%M%SZ"
# No two clocks differ by more; an id from further on was made up.
_FURTHEST = timedelta(days=3_650)


def new_id(at: int, run_id: str, *, after: str | None = None) -> str:
    """``20261121T012345Z-0123456789`` for a moment in milliseconds and a run. The same run gets the same suffix whenever it is repeated.

    The newest id must sort last, so one that comes ``after`` another never has an earlier time or the same, whatever the clocks of two machines say.
    One of ten years on does not count.
    """
    moment = datetime.fromtimestamp(at / 1000, UTC)
    if after is not None:
        earlier = datetime.strptime(after.split("-")[0], _TIME).replace(tzinfo=UTC)
        if earlier - moment < _FURTHEST:
            moment = max(moment, earlier + timedelta(seconds=1))
    return f"{moment.strftime(_TIME)}-{run_suffix(run_id)}"


def same_moment(savepoint_id: str, run_id: str) -> str:
    """An id for something that ``run_id`` makes of a savepoint and that is to sort with it: its time, and the run's own suffix."""
    return f"{time_of(savepoint_id)}-{run_suffix(run_id)}"


def time_of(text: str) -> str:
    """The part of an id that it sorts by."""
    return text.split("-", 1)[0]


def run_suffix(run_id: str) -> str:
    """What ids of this run end with."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def is_id(text: str) -> bool:
    """True for text that has the form of an id, and a time that there is."""
    if _ID.fullmatch(text) is None or not text.isascii():
        return False
    try:
        datetime.strptime(time_of(text), _TIME).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True
