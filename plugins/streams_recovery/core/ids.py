"""Ids of savepoints and restores. They sort by time, and contain a digest of the run that created them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

# Also used in JSON schemas, so it uses only syntax that both dialects of regular expressions have.
PATTERN = r"\d{8}T\d{6}Z-[0-9a-f]{10}"
# What a person writes in place of an id: the newest one that will do, or what is on the cluster now.
LATEST, LIVE = "latest", "live"
_ID = re.compile(PATTERN)
_TIME = "%Y%m%dT%H%M%SZ"
# Clocks never differ by more (ms). An id with a later time is forged, or a clock was wrong.
LATEST_MS = 86_400_000
# Of a run's own id in the name of a run.
_LONGEST = 200


def new_id(at: int, run_id: str, *, after: Iterable[str] = ()) -> str:
    """``20261121T012345Z-0123456789`` for a moment in milliseconds and a run. The same run always gets the same suffix.

    The new id must sort last. So its time is always later than those of the ids that it comes ``after``, whatever the clocks of the machines say. Ids that
    are ahead of the clock by more than ``LATEST_MS`` are ignored: they would shift all later ids for as long as they are there.
    """
    moment = datetime.fromtimestamp(at / 1000, UTC)
    newest = max((one for one in after if not is_ahead(one, at)), default=None)
    if newest is not None:
        moment = max(moment, _moment(newest) + timedelta(seconds=1))
    return f"{moment.strftime(_TIME)}-{run_suffix(run_id)}"


def is_ahead(text: str, now: int) -> bool:
    """True for an id with a time that no clock can have shown at ``now`` (ms)."""
    return moment_of(text) > now + LATEST_MS


def in_order(ids: Iterable[str], now: int) -> list[str]:
    """Ids, the newest last. Those that are ahead of the clock come first: none of them is ever taken for the newest."""
    return sorted(ids, key=lambda one: (not is_ahead(one, now), one))


def moment_of(text: str) -> int:
    """The moment in an id, in milliseconds since the epoch. Ids have whole seconds. Raises ``ValueError`` for text that is no id."""
    return round(_moment(text).timestamp() * 1000)


def _moment(text: str) -> datetime:
    return datetime.strptime(time_of(text), _TIME).replace(tzinfo=UTC)


def same_moment(savepoint_id: str, run_id: str) -> str:
    """An id for an object that ``run_id`` makes of a savepoint. It has the savepoint's time, so that both sort together, and the run's own suffix."""
    return f"{time_of(savepoint_id)}-{run_suffix(run_id)}"


def time_of(text: str) -> str:
    """The time in an id."""
    return text.split("-", 1)[0]


def run_suffix(run_id: str) -> str:
    """The suffix of ids of this run."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:10]


def run_name(run_id: str, dag_id: str) -> str:
    """A name for a run of Airflow that is fit for object keys: run ids have colons and plus signs. It ends with a digest of both ids, because runs of two DAGs
    may have one id, and must not take each other for themselves.
    """
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in run_id)
    return f"{plain[:_LONGEST]}-{hashlib.sha256(f'{dag_id} {run_id}'.encode()).hexdigest()[:8]}"


def is_id(text: str) -> bool:
    """True for text in the format of an id, with a valid time."""
    if _ID.fullmatch(text) is None or not text.isascii():
        return False
    try:
        _moment(text)
    except ValueError:
        return False
    return True
