from __future__ import annotations

import pytest

from streams_recovery.operations.status.advise import longest_interval

NOW = 1_795_430_200_000 - 1_795_430_200_000 % 604_800_000


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("0 * * * *", 3_600),
        ("*/15 * * * *", 900),
        ("0 6,18 * * *", 43_200),
        ("0 8,9 * * *", 23 * 3_600),
        ("0 4 * * 6", 604_800),
        ("0 8-17 * * 1-5", 63 * 3_600),
    ],
)
def test_the_longest_time_between_two_runs_counts(schedule: str, seconds: int) -> None:
    assert longest_interval(schedule, NOW) == seconds


def test_by_hand_only_has_no_interval() -> None:
    assert longest_interval(None, NOW) is None
