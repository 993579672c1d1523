"""Moments as text: written for people, and parsed from what people write, to the millisecond. There a time zone or an offset is required.

    2026-11-21T12:00:00Z
    2026-11-21T13:00:00+01:00
    2026-11-21T13:00:00 Europe/Vienna

A time that the clocks of a named zone skip, or show twice, is refused. A time with an offset is always unambiguous.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from streams_recovery.core.errors import ConfigInvalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The end of the year 9999, in milliseconds.
LAST_MOMENT = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
_SHOWN = 80
_NAMED = re.compile(r"(.+?) +([A-Za-z][A-Za-z0-9_+/-]*)")


def parse_moment(text: str) -> int:
    """Milliseconds since the epoch, rounded down. Raises ``ConfigInvalid`` for text that is not a time, has no time zone, or is skipped or ambiguous
    in its zone.
    """
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


def moment(milliseconds: int) -> str:
    """A timestamp in UTC for people. A timestamp outside the calendar is shown as its number of milliseconds."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return f"{milliseconds} ms"


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
    # A skipped time is different after a conversion to UTC and back.
    skipped = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != written
    offsets = " and ".join(sorted(one.isoformat() for one in (first, second)))
    raise ConfigInvalid(
        f"{text!r} is no moment: clocks in {name} {'skip it' if skipped else f'show it twice, as {offsets}'}",
        next_step=f"write the moment that is meant with its offset{'' if skipped else ', as one of these'}",
        moments=[] if skipped else sorted(one.isoformat() for one in (first, second)),
    )
