from __future__ import annotations

import pytest

from streams_recovery.core.text.units import size, span


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
