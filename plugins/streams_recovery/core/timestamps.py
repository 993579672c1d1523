"""Moments as people write them, exact to the millisecond: a date, a time, and where on earth that is meant.

    2026-11-21T12:00:00Z
    2026-11-21T13:00:00+01:00
    2026-11-21T13:00:00 Europe/Vienna

A time of a named zone that its clocks skip, or show twice, is no moment and is refused; with an offset it always is one.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streams_recovery.core.errors import ConfigInvalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last one that a calendar has, in milliseconds.
LAST_MOMENT = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
_SHOWN = 80
_NAMED = re.compile(r"(.+?) +([A-Za-z][A-Za-z0-9_+/-]*)")


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch; fractions of one are cut off. Raises ``ConfigInvalid`` for what is no time, has no zone, or is no moment in it."""
    named = _NAMED.fullmatch(text.strip())
    try:
        found = datetime.fromisoformat(named[1] if named else text.strip())
    except ValueError as error:
        raise ConfigInvalid(
            f"{text[:_SHOWN]!r} is not a time", next_step="write it with date and time zone, such as 2026-11-21T12:00:00Z"
        ) from error
    if named:
        found = _in_zone(found, named[2], text[:_SHOWN])
    if found.tzinfo is None:
        raise ConfigInvalid(
            f"{text[:_SHOWN]!r} has no time zone; it could mean moments a day apart",
            next_step=f"add one, such as {text[:40]}Z or {text[:40]}+01:00",
        )
    return (found - EPOCH) // timedelta(milliseconds=1)


def _in_zone(written: datetime, name: str, text: str) -> datetime:
    if written.tzinfo is not None:
        raise ConfigInvalid(f"{text!r} has two time zones", next_step="leave one of them out")
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigInvalid(
            f"{text!r}: there is no time zone {name!r} here", next_step="write one such as Europe/Vienna, or an offset such as +01:00"
        ) from error
    first, second = written.replace(tzinfo=zone, fold=0), written.replace(tzinfo=zone, fold=1)
    if first.utcoffset() == second.utcoffset():
        return first
    # Of a time that is skipped neither reading comes back as it was written.
    skipped = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != written
    offsets = " and ".join(sorted(one.isoformat() for one in (first, second)))
    raise ConfigInvalid(
        f"{text!r} is no moment: clocks in {name} {'skip it' if skipped else f'show it twice, as {offsets}'}",
        next_step=f"write the moment that is meant with its offset{'' if skipped else ', as one of these'}",
        moments=[] if skipped else sorted(one.isoformat() for one in (first, second)),
    )
