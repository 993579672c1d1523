"""A plan of expiry says what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.repository.announcement import Apply, DeletionOutlook
from streams_recovery.core.text.deletion import outlook_text

NOW = 1_795_219_200_000
ANNOUNCED = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=NOW + 60_000, due=False)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, "**From 2026-11-21 00:01:00 UTC on, runs of the schedule carry this out.**"),
        ({"due": True}, "carry this out since 2026-11-21 00:01:00 UTC"),
        ({"deletes_from": None}, "The next one announces that they carry it out from 14 days later on"),
        ({"apply": Apply.YES}, "carry this out (`retention.apply: true`)"),
        ({"apply": Apply.NO}, "only show this (`retention.apply: false`)"),
        ({"scheduled": False}, "No run is scheduled"),
    ],
)
def test_a_plan_says_what_becomes_of_it(changed: dict[str, object], said: str) -> None:
    assert said in outlook_text(replace(ANNOUNCED, **changed))  # type: ignore[arg-type]
