"""A moment is written with its zone, and is one moment exactly."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.timestamps import parse_moment

NOON = 1_795_262_400_000
YEARS = tuple(datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (1970, 2100))


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T12:00:00Z",
        " 2026-11-21T12:00:00Z ",
        "2026-11-21 12:00:00Z",
        "2026-11-21T13:00:00+01:00",
        "2026-11-21T13:00:00 Europe/Vienna",
        "2026-11-21 13:00  Europe/Vienna",
        "2026-11-21T12:00 UTC",
        "2026-11-21T17:45 Asia/Kathmandu",
    ],
)
def test_one_moment_has_many_names(text: str) -> None:
    assert parse_moment(text) == NOON


@given(st.datetimes(*YEARS), st.timezones())
def test_a_time_of_a_zone_is_its_moment_or_refused_as_none(naive: datetime, zone: object) -> None:
    # Independently of how it was parsed: the moments whose clocks show this time, found by trying every offset there is.
    naive = naive.replace(microsecond=naive.microsecond // 1000 * 1000)
    shown = set()
    for minutes in range(-16 * 60, 16 * 60 + 1, 1):
        moment = datetime.fromtimestamp((naive.replace(tzinfo=UTC).timestamp()) - minutes * 60, UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == naive:  # type: ignore[arg-type]
            shown.add(round(moment.timestamp() * 1000))
    text = f"{naive.isoformat()} {zone}"
    if len(shown) == 1:
        assert parse_moment(text) == shown.pop()
    elif shown or zone_has_whole_minutes(naive, zone):
        with pytest.raises(ConfigInvalid, match="is no moment"):
            parse_moment(text)


def zone_has_whole_minutes(naive: datetime, zone: object) -> bool:
    offset = naive.replace(tzinfo=zone).utcoffset()  # type: ignore[arg-type]
    return offset is not None and offset.total_seconds() % 60 == 0


@pytest.mark.fault("F55")
def test_a_time_that_the_clocks_skip_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="clocks in Europe/Vienna skip it"):
        parse_moment("2026-03-29T02:30:00 Europe/Vienna")
    assert parse_moment("2026-03-29T02:30:00+01:00") == parse_moment("2026-03-29T03:30:00 Europe/Vienna")


@pytest.mark.fault("F55")
def test_a_time_that_the_clocks_show_twice_is_refused_with_both() -> None:
    with pytest.raises(ConfigInvalid, match="show it twice") as caught:
        parse_moment("2026-10-25T02:30:00 Europe/Vienna")
    assert caught.value.facts == {"moments": ["2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"]}
    hour = parse_moment("2026-10-25T02:30:00+01:00") - parse_moment("2026-10-25T02:30:00+02:00")
    assert hour == 3_600_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11-21T12:00:00", "has no time zone"),
        ("2026-11-21", "has no time zone"),
        ("noon", "is not a time"),
        ("", "is not a time"),
        ("2026-11-21T25:00:00Z", "is not a time"),
        ("2026-11-21T12:00:00Z Europe/Vienna", "has two time zones"),
        ("2026-11-21T12:00:00 Europe/Nowhere", "there is no time zone"),
        ("2026-11-21T12:00:00 ../../etc/passwd", "is not a time"),
    ],
)
def test_what_is_no_moment_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        parse_moment(text)
