"""Every strategy for input offsets: how it is written, where it goes on, and that pages about it have all of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.lag import Lag
from streams_recovery.core.offsets.strategies import (
    EXACT,
    HELP,
    PATTERN,
    REBUILD_HELP,
    STRATEGIES,
    File,
    Logs,
    OffsetStrategy,
    Shift,
    Specific,
    checked,
    parse,
)
from streams_recovery.operations.restore.strategies import Rebuild
from tests.support.project import PROJECT

TP = TopicPartition("in", 0)
# Of an input that begins at 2 and ends at 12, behind an open transaction from 10 on. The state ends at 5.
LOGS = Logs(starts={TP: 2}, stable={TP: 10}, ends={TP: 12}, at_time={TP: 7})
# The offset, and whether it is a number that was asked for.
PLACES = {
    "exact": (5, True),
    "earliest": (2, False),
    "latest": (10, False),
    "timestamp:2026-11-21T12:00:00Z": (7, False),
    "duration:P1D": (7, False),
    "shift:-3": (2, True),
    "shift:-4": (2, False),
    "shift:5": (10, True),
    "shift:6": (10, False),
    "offset:1": (2, False),
    "offset:2": (2, True),
    "offset:10": (10, True),
    "offset:11": (10, False),
    "specific:in:0=12": (12, True),
    "specific:other:0=12": (5, True),
    "file:in.csv": (3, True),
}

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def parsed(text: str) -> OffsetStrategy:
    return parse(text, group="me", read=lambda _: b"in,0,3\n")


@pytest.mark.parametrize("text", PLACES)
def test_each_strategy_goes_on_where_it_says(text: str) -> None:
    assert parsed(text).place(TP, 5, LOGS) == PLACES[text]


def test_the_end_is_where_a_time_finds_nothing() -> None:
    for text in ("timestamp:2026-11-21T12:00:00Z", "duration:P1D"):
        assert parsed(text).place(TP, 5, Logs(starts=LOGS.starts, stable=LOGS.stable, ends=LOGS.ends, at_time={TP: None})) == (10, False)


def test_logs_tell_the_lag_of_an_offset() -> None:
    assert LOGS.lag(TP, 5) == Lag(committed=5, start=2, stable=10, end=12)


def test_no_strategy_is_without_a_place() -> None:
    assert {parsed(text).KIND for text in PLACES} == {strategy.KIND for strategy in STRATEGIES}


@every_strategy
@given(exact=st.integers(2, 12), other=st.integers(2, 12))
def test_what_comes_from_the_log_is_the_same_whatever_the_state_is(strategy: type[OffsetStrategy], exact: int, other: int) -> None:
    wanted = parsed(strategy.FORM)
    (place, fixed), elsewhere = wanted.place(TP, exact, LOGS), wanted.place(TP, other, LOGS)
    assert 2 <= place <= 12
    if strategy.FROM_LOG:
        assert ((place, fixed), False) == (elsewhere, fixed)


@every_strategy
def test_what_reads_from_the_start_begins_at_it(strategy: type[OffsetStrategy]) -> None:
    assert (parsed(strategy.FORM).place(TP, 5, LOGS)[0] == LOGS.starts[TP]) >= strategy.FROM_START


@every_strategy
def test_an_example_is_understood_and_fits_its_own_pattern_only(strategy: type[OffsetStrategy]) -> None:
    assert isinstance(parsed(strategy.FORM), strategy)
    assert parsed(strategy.FORM).text == strategy.FORM
    assert checked(strategy.FORM) == strategy.FORM
    assert [other.KIND for other in STRATEGIES if re.fullmatch(other.PATTERN, strategy.FORM)] == [strategy.KIND]
    assert strategy.FORM == strategy.KIND or strategy.FORM.startswith(f"{strategy.KIND}:")


@pytest.mark.parametrize("text", PLACES)
def test_what_is_understood_fits_the_pattern(text: str) -> None:
    assert re.fullmatch(PATTERN, text)


@pytest.mark.parametrize("text", PLACES)
def test_a_request_keeps_its_strategy(text: str) -> None:
    request = Rebuild(reason="", offsets=parsed(text))
    assert codec.loads(Rebuild, codec.dumps(request), where="request") == request


@every_strategy
def test_a_strategy_that_means_nothing_without_state_says_so(strategy: type[OffsetStrategy]) -> None:
    wanted = parsed(strategy.FORM)
    if isinstance(wanted, (Specific, File)):
        wanted = parsed("specific:in:0=3")
    if strategy.REBUILD_HELP:
        wanted.check_rebuild({TP}, {TP}, {TP: 5})
    else:
        with pytest.raises(Refused):
            wanted.check_rebuild({TP}, {TP}, {TP: 5})


def test_help_has_every_form() -> None:
    for strategy in STRATEGIES:
        assert f"{strategy.FORM} ({strategy.HELP})" in HELP
        assert (strategy.FORM in REBUILD_HELP) == bool(strategy.REBUILD_HELP)


def page(*path: str) -> str:
    return PROJECT.joinpath(*path).read_text(encoding="utf-8")


def rows(text: str, heading: str) -> list[str]:
    """The first column of the first table under a heading."""
    section = text.split(f"\n{heading}\n", 1)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None
    return [line.split("|")[1].strip() for line in table[0].splitlines()[2:]]


@pytest.mark.parametrize(
    ("path", "heading", "forms"),
    [
        ("docs/offsets.md", "## Input offsets after a restore", [strategy.FORM for strategy in STRATEGIES]),
        ("docs/strategies/rebuild.md", "## Where the inputs begin", [strategy.FORM for strategy in STRATEGIES if strategy.REBUILD_HELP]),
    ],
)
def test_each_page_has_a_row_for_every_strategy(path: str, heading: str, forms: list[str]) -> None:
    assert rows(page(*Path(path).parts), heading) == [f"`{form}`" for form in forms]


def test_the_reference_names_every_strategy() -> None:
    (line,) = re.findall(
        r"^ *consumer_group_strategy: exact +# or (.*)$", page("include", "configs", "reference.yaml.example"), re.MULTILINE
    )
    assert line.split(", ") == [strategy.short_form() for strategy in STRATEGIES[1:]]


def test_the_page_on_configuration_names_every_strategy() -> None:
    (line,) = re.findall(r"^\| `consumer_group_strategy` \|.*$", page("docs", "configuration.md"), re.MULTILINE)
    assert re.findall(r"`([a-z]+(?::…)?)`", line.split("|")[3]) == [strategy.short_form().replace("...", "…") for strategy in STRATEGIES]


NOON = 1_795_262_400_000


def nothing(name: str) -> bytes:
    raise AssertionError(f"{name} was read")


def understood(text: str) -> OffsetStrategy:
    return parse(text, group="orders", read=nothing)


@pytest.mark.parametrize("kind", ["exact", "earliest", "latest"])
def test_words_that_stand_alone(kind: str) -> None:
    assert (understood(kind).KIND, understood(kind).text) == (kind, kind)
    assert understood("exact") == EXACT
    with pytest.raises(ConfigInvalid, match="not a whole strategy"):
        understood(f"{kind}:1")


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
    assert understood(f"timestamp:{text}").moment(0) == moment


@given(moment=st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9999, 12, 30)), hours=st.integers(-14, 14))  # noqa: DTZ001
def test_a_time_keeps_its_milliseconds_in_any_zone(moment: datetime, hours: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    found = understood(f"timestamp:{aware.isoformat()}").moment(0)
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
        understood(text)
    with pytest.raises(ConfigInvalid, match=said):
        checked(text)


@pytest.mark.parametrize(("text", "hours"), [("P1D", 24), ("PT6H", 6), ("P1DT2H30M", 26.5), ("PT1800S", 0.5)])
def test_a_duration_counts_back_from_when_the_plan_is_made(text: str, hours: float) -> None:
    day = 86_400_000
    assert understood(f"duration:{text}").moment(30 * day) == 30 * day - hours * 3_600_000
    assert understood("duration:P99999D").moment(day) == 0
    assert understood("timestamp:1970-01-02T00:00:00Z").moment(30 * day) == day
    assert understood("earliest").moment(day) is None


@pytest.mark.parametrize(("text", "by"), [("shift:-100", -100), ("shift:+7", 7), ("shift:0", 0)])
def test_a_shift_has_a_sign(text: str, by: int) -> None:
    assert understood(text) == Shift(text=text, by=by)


def test_offsets_are_named_by_topic_and_partition() -> None:
    text = "specific:orders:0=17, my.in_put-2:11=42"
    assert understood(text) == Specific(text=text, given={TopicPartition("orders", 0): 17, TopicPartition("my.in_put-2", 11): 42})


def test_a_file_is_read_only_when_it_is_needed() -> None:
    assert checked("file:any.csv") == "file:any.csv"
    found = parse("file:any.csv", group="orders", read=lambda name: f"{name},0,1".encode())
    assert found == File(text="file:any.csv", given={TopicPartition("any.csv", 0): 1})


@pytest.mark.parametrize("text", ["file:/etc/offsets.csv", "file:../offsets.csv", "file:more/offsets.csv", "file:..\\offsets.csv"])
def test_a_configuration_names_no_file_of_another_directory(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="that a configuration may name"):
        checked(text)
