from __future__ import annotations

import pytest

from streams_recovery.config.pauses import longest_pause

HOUR, DAY = 3_600, 86_400


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("0 * * * *", HOUR),
        ("*/5 * * * *", 300),
        ("0 6,18 * * *", 12 * HOUR),
        ("0 8,9 * * *", 23 * HOUR),
        ("0 4 * * 6", 7 * DAY),
        ("0 9 * * 1-5", 3 * DAY),
        ("0 8-17 * * 1-5", 63 * HOUR),
        ("*/5 8-17 * * 1-5", 62 * HOUR + 300),
        ("0 0 1 * *", 31 * DAY),
        ("0 0 1 6 *", 366 * DAY),
        (None, None),
    ],
)
def test_the_longest_time_between_two_firings_counts_also_over_a_weekend(schedule: str | None, seconds: int | None) -> None:
    assert longest_pause(schedule) == seconds
