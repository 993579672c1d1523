"""Every strategy for input offsets: where it goes on, and that what is written about it elsewhere has all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams_recovery.core import codec
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.offsets.strategies import (
    HELP,
    PATTERN,
    REBUILD_HELP,
    SHORT_FORMS,
    STRATEGIES,
    File,
    Logs,
    OffsetStrategy,
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
    assert line.split(", ") == list(SHORT_FORMS[1:])


def test_the_page_on_configuration_names_every_strategy() -> None:
    (line,) = re.findall(r"^\| `consumer_group_strategy` \|.*$", page("docs", "configuration.md"), re.MULTILINE)
    assert re.findall(r"`([a-z]+(?::…)?)`", line.split("|")[3]) == [form.replace("...", "…") for form in SHORT_FORMS]
