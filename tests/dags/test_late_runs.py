"""Which runs of a savepoint's DAG may take one: a savepoint can only be taken of the present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from streams_recovery.operators.base import too_late

DUE = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOURLY = "0 * * * *"


@pytest.mark.fault("F20")
@pytest.mark.parametrize("schedule", [HOURLY, None])
@pytest.mark.parametrize("after", [timedelta(), timedelta(days=1)])
def test_a_backfill_takes_none_and_a_run_by_hand_always_does(schedule: str | None, after: timedelta) -> None:
    assert "backfill runs stand for the past" in str(too_late("backfill", DUE, schedule, DUE + after))
    assert too_late("manual", DUE, schedule, DUE + after) is None


@pytest.mark.fault("F20")
def test_a_scheduled_run_takes_one_until_the_next_is_due() -> None:
    assert too_late("scheduled", DUE, HOURLY, DUE + timedelta(minutes=59, seconds=59)) is None
    told = too_late("scheduled", DUE, HOURLY, DUE + timedelta(hours=1))
    assert told is not None
    assert "was due at 2026-11-21 12:00 UTC and the next one since 2026-11-21 13:00 UTC" in told
