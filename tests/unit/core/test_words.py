from __future__ import annotations

import pytest

from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.words import first_names, size, span


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (1_500, "1.5 kB"),
        (99_400, "99.4 kB"),
        (99_600, "100 kB"),
        (999_600, "1.0 MB"),
        (38_200_000_000, "38.2 GB"),
        (2.5e18, "2500 PB"),
        (-1_200, "-1.2 kB"),
    ],
)
def test_a_size_is_short(count: float, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3_599, "59 min 59 s"),
        (3_601, "1 h"),
        (7_260, "2 h 1 min"),
        (11_520, "3 h 12 min"),
        (86_400, "1 day"),
        (90_000, "1 day 1 h"),
        (2 * 86_400 + 60, "2 days"),
        (12 * 86_400 + 7_200, "12 days"),
    ],
)
def test_a_length_of_time_has_the_two_units_that_count(seconds: float, text: str) -> None:
    assert span(seconds) == text


NAMES = [f"t{number}" for number in reversed(range(8))]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (NAMES[:2], "t6, t7"),
        (NAMES[3:], "t0, t1, t2, t3, t4"),
        (NAMES, "t0, t1, t2, t3, t4 and 3 more"),
        ({TopicPartition("in", number): 1 for number in (10, 9)}, "in-9, in-10"),
    ],
)
def test_the_first_names_in_order_and_how_many_more(names: list[str], text: str) -> None:
    assert first_names(names) == text


def test_as_many_as_are_asked_for() -> None:
    assert first_names(NAMES, 2) == "t0, t1 and 6 more"
