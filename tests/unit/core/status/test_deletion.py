"""While a deletion is announced, and only then, a finding says from when on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.repository.announcement import Apply, DeletionOutlook
from streams_recovery.core.status.deletion import deletion_findings
from streams_recovery.core.status.finding import Severity
from streams_recovery.core.text.deletion import outlook_text

NOW = 1_795_219_200_000
ANNOUNCED = DeletionOutlook(apply=Apply.AFTER_DAYS, scheduled=True, after_days=14, deletes_from=NOW + 60_000, due=False)


def test_an_announced_deletion_is_a_finding_with_its_moment() -> None:
    [found] = deletion_findings("orders", ANNOUNCED, now=NOW)
    assert (found.kind, found.severity, found.cause) == ("deletion-announced", Severity.INFO, "deletion-announced")
    assert "From 2026-11-21 00:01:00 UTC on" in found.text
    assert found.remedies == ("streams-recovery expire orders --plan",)
    assert found.numbers == {"seconds_left": 60.0}


@pytest.mark.parametrize(
    "changed", [{"due": True}, {"deletes_from": None}, {"scheduled": False}, {"apply": Apply.NO, "deletes_from": None}]
)
def test_it_is_silent_otherwise(changed: dict[str, object]) -> None:
    assert deletion_findings("orders", replace(ANNOUNCED, **changed), now=NOW) == ()  # type: ignore[arg-type]


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
