"""What the benchmark makes of its runs."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import figures
from bench.figures import BACKUP, LIMIT, NONE, RESTORE, RIVAL, Run

OURS = Run(
    case="150b", records=2_000_000, what=BACKUP, by="native", whole=9.0, cpu=5.0, inside=4.0, memory=300, stored=62_000_000, broker_cpu=1.0
)
SECONDS = st.floats(min_value=0.1, max_value=1000)


def cell(table: figures.Table, column: str, by: str) -> str:
    """What a table says of one way."""
    head, rows = table
    found = [row for row in rows if by in row]
    assert len(found) == 1
    return found[0][head.index(column)]


@given(st.lists(SECONDS, min_size=1, max_size=9))
def test_a_figure_is_the_median_of_its_rounds(seconds: list[float]) -> None:
    (one,) = figures.medians(replace(OURS, whole=value, inside=value / 2) for value in seconds)
    assert (one.whole, one.inside) == (statistics.median(seconds), statistics.median(value / 2 for value in seconds))


def test_kinds_stay_apart_and_in_their_order() -> None:
    kinds = [OURS, replace(OURS, by="plain"), replace(OURS, what=RESTORE), replace(OURS, records=10), replace(OURS, case="1kb")]
    assert [run.kind for run in figures.medians([*kinds, *reversed(kinds)])] == [run.kind for run in kinds]


def test_what_was_not_measured_stays_unknown_and_is_no_zero() -> None:
    (one,) = figures.medians([replace(OURS, memory=None, started=None), replace(OURS, memory=400, started=None)])
    assert (one.memory, one.started) == (400, None)
    assert cell(figures.runs_table([one], BACKUP), "started, s", "native") == NONE


@given(SECONDS, SECONDS, st.integers(min_value=1, max_value=10**6), st.integers(min_value=1, max_value=10**6))
def test_a_time_that_is_a_start_and_a_rate_has_that_slope(start: float, rate: float, small: int, more: int) -> None:
    sizes = (small * 100, (small + more) * 100)
    runs = [
        replace(OURS, records=size, whole=start + 2 + rate * size / 1e6, inside=start + rate * size / 1e6, cpu=start + rate * size / 2e6)
        for size in sizes
    ]
    (slope,) = figures.slopes(runs)
    error = 1e-6 * (start + rate) * max(1, small / more) * 1e4
    assert slope.inside == pytest.approx(rate, abs=error)
    assert slope.whole == pytest.approx(rate, abs=error)
    assert slope.cpu == pytest.approx(rate / 2, abs=error)
    assert slope.rest == pytest.approx(start + 2, abs=error * max(1, small / 1e4))


def test_of_one_size_there_is_no_slope() -> None:
    assert figures.slopes([OURS, replace(OURS, by="plain")]) == []


def test_ratios_are_to_the_same_records_in_the_same_direction() -> None:
    limit = Run(case="150b", records=2_000_000, what=BACKUP, by=LIMIT, whole=1.0, cpu=1.0)
    rival = Run(case="150b", records=2_000_000, what=BACKUP, by=RIVAL, whole=2.0, cpu=4.0)
    others = [
        replace(one, **{field: value}) for one in (limit, rival) for field, value in (("what", RESTORE), ("case", "1kb"), ("records", 5))
    ]
    head, rows = figures.runs_table([OURS, limit, rival, *(replace(other, whole=100.0) for other in others)], BACKUP)
    assert {row[head.index("case")] for row in rows} == {"150b", "1kb"}
    assert len(rows) == 7, "what goes the other way is in the other table"
    assert [rows[0][head.index(name)] for name in ("inside to librdkafka", "inside to rival", "whole to rival")] == ["4.00", "2.00", "4.50"]
    assert rows[1][head.index("inside to librdkafka")] == NONE, "a limit is not compared with itself"
    assert rows[2][head.index("inside to rival")] == NONE


def test_rates_are_of_the_time_inside_and_processor_time_of_one_record() -> None:
    table = figures.runs_table([OURS], BACKUP)
    assert cell(table, "records/s", "native") == "500,000"
    assert cell(table, "CPU µs/record", "native") == "2.50"
    assert cell(table, "stored, MB", "native") == "62.0"


def test_slopes_are_compared_with_those_of_the_others() -> None:
    runs = [
        replace(OURS, by=by, records=size, whole=rate * size / 1e6, inside=rate * size / 1e6)
        for by, rate in (("native", 3.0), (LIMIT, 1.0), (RIVAL, 2.0))
        for size in (10, 1_000_000)
    ]
    table = figures.slopes_table(figures.slopes(runs))
    assert (cell(table, "to librdkafka", "native"), cell(table, "to rival", "native")) == ("3.00", "1.50")


def test_a_slope_that_falls_is_compared_with_nothing() -> None:
    runs = [
        replace(OURS, by=by, records=size, inside=seconds)
        for by, ends in (("plain", (9, 5)), (LIMIT, (1, 2)))
        for size, seconds in zip((10, 1_000_000), ends, strict=True)
    ]
    table = figures.slopes_table(figures.slopes(runs))
    assert cell(table, "inside, s a million", "plain") == "-4.00"
    assert cell(table, "to librdkafka", "plain") == NONE


def test_a_page_gets_a_table_without_columns_that_say_nothing() -> None:
    shown = figures.markdown((("a", "b", "c"), [("1", NONE, NONE), ("2", NONE, "3")]))
    assert shown == "| a | c |\n| --- | --- |\n| 1 | - |\n| 2 | 3 |\n"
