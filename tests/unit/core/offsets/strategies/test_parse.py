"""One line of text for where an application goes on: understood whole, or refused with the way to write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.strategies import EXACT, File, OffsetStrategy, Shift, Specific, checked, parse

NOON = 1_795_262_400_000


def nothing(name: str) -> bytes:
    raise AssertionError(f"{name} was read")


def parsed(text: str) -> OffsetStrategy:
    return parse(text, group="orders", read=nothing)


@pytest.mark.parametrize("kind", ["exact", "earliest", "latest"])
def test_words_that_stand_alone(kind: str) -> None:
    assert (parsed(kind).KIND, parsed(kind).text) == (kind, kind)
    assert parsed("exact") == EXACT
    with pytest.raises(ConfigInvalid, match="not a whole strategy"):
        parsed(f"{kind}:1")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T12:00:00Z", NOON),
        ("2026-11-21T13:00:00+01:00", NOON),
        ("2026-11-21 12:00:00.001999Z", NOON + 1),
        # Both of the hour that a clock shows twice, told apart by what a naive time leaves out.
        ("2026-10-25T02:30:00+02:00", 1_792_888_200_000),
        ("2026-10-25T02:30:00+01:00", 1_792_891_800_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_is_a_moment(text: str, moment: int) -> None:
    assert parsed(f"timestamp:{text}").moment(0) == moment


@given(moment=st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30)), hours=st.integers(-14, 14))  # noqa: DTZ001
def test_a_time_keeps_its_milliseconds_in_any_zone(moment: datetime, hours: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    found = parsed(f"timestamp:{aware.isoformat()}").moment(0)
    assert found is not None
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found) <= aware
    assert aware < datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found + 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no strategy"),
        ("oldest", "is no strategy"),
        ("EXACT", "is no strategy"),
        ("timestamp", "not a whole strategy"),
        ("timestamp:", "not a whole strategy"),
        ("timestamp:2026-11-21T12:00:00", "has no time zone.*12:00:00Z or"),
        ("timestamp:2026-11-21", "has no time zone"),
        ("timestamp:noon", "is not a time"),
        ("timestamp:1969-12-31T23:59:59Z", "before 1970"),
        ("duration:1 day", "is not a duration"),
        ("duration:P", "is not a duration"),
        ("duration:PT", "is not a duration"),
        ("duration:-P1D", "is not a duration"),
        ("shift:ten", "not a number of offsets"),
        ("shift:1.5", "not a number of offsets"),
        ("offset:ten", "is not an offset"),
        ("offset:-1", "is not an offset"),
        ("specific:orders", "is not <topic>:<partition>=<offset>"),
        ("specific:orders:0=-1", "is not <topic>"),
        ("specific:orders:0=1,", "is not <topic>"),
        ("specific:../x:0=1", "is not <topic>"),
        ("specific:orders:0=1,orders:0=2", "orders-0 is named twice"),
        ("file:", "not a whole strategy"),
    ],
)
def test_what_is_no_strategy_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        parsed(text)
    with pytest.raises(ConfigInvalid, match=said):
        checked(text)


@pytest.mark.parametrize(("text", "hours"), [("P1D", 24), ("PT6H", 6), ("P1DT2H30M", 26.5), ("PT1800S", 0.5)])
def test_a_duration_counts_back_from_when_the_plan_is_made(text: str, hours: float) -> None:
    day = 86_400_000
    assert parsed(f"duration:{text}").moment(30 * day) == 30 * day - hours * 3_600_000
    assert parsed("duration:P99999D").moment(day) == 0
    assert parsed("timestamp:1970-01-02T00:00:00Z").moment(30 * day) == day
    assert parsed("earliest").moment(day) is None


@pytest.mark.parametrize(("text", "by"), [("shift:-100", -100), ("shift:+7", 7), ("shift:0", 0)])
def test_a_shift_has_a_sign(text: str, by: int) -> None:
    assert parsed(text) == Shift(text=text, by=by)


def test_offsets_are_named_by_topic_and_partition() -> None:
    text = "specific:orders:0=17, my.in_put-2:11=42"
    assert parsed(text) == Specific(text=text, given={TopicPartition("orders", 0): 17, TopicPartition("my.in_put-2", 11): 42})


def test_a_file_is_read_only_when_it_is_needed() -> None:
    assert checked("file:any.csv") == "file:any.csv"
    found = parse("file:any.csv", group="orders", read=lambda name: f"{name},0,1".encode())
    assert found == File(text="file:any.csv", given={TopicPartition("any.csv", 0): 1})


@pytest.mark.parametrize("text", ["file:/etc/offsets.csv", "file:../offsets.csv", "file:more/offsets.csv", "file:..\\offsets.csv"])
def test_a_configuration_names_no_file_of_another_directory(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="that a configuration may name"):
        checked(text)
