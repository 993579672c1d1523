"""Alerts through the log in the repository: told once, by one run, and again by the next when telling failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from streams_recovery.core.checks.check import Severity
from streams_recovery.core.status.alerts import Alert, AlertsEntry, News
from streams_recovery.core.status.facts import finding
from streams_recovery.core.status.run_findings import run_failed
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.status.notices import Notice, alert_log, open_alerts, run_ended, tell_news
from tests.support.repository.golden import SECOND_AT, OpenGolden, root

NOW = SECOND_AT + 600_000
OTHER = finding("disk-full", Severity.CRITICAL, "full")
LAG = finding("lag-high", Severity.WARNING, "behind")


class Told:
    """Somebody who listens, and may be out."""

    def __init__(self, *, out: bool = False) -> None:
        self.out = out
        self.heard: list[tuple[str, str]] = []

    def __call__(self, notices: Sequence[Notice]) -> None:
        if self.out:
            raise ConnectionError("the mail server does not answer")
        self.heard += [(notice.finding.cause, notice.news.value) for notice in notices]


@pytest.fixture
def recovery(golden: OpenGolden) -> RecoveryContext:
    return golden("good", now=NOW)


def later(golden: OpenGolden, minutes: int) -> RecoveryContext:
    return golden("good", now=NOW + minutes * 60_000)


def test_each_cause_is_told_once_and_again_when_it_is_over(golden: OpenGolden) -> None:
    told = Told()
    tell_news(later(golden, 0), [LAG], run="run 1", tell=told)
    tell_news(later(golden, 5), [LAG], run="run 2", tell=told)
    tell_news(later(golden, 10), [], run="run 3", tell=told)
    assert told.heard == [("lag-high", "raised")]
    tell_news(later(golden, 16), [], run="run 4", tell=told)
    assert told.heard == [("lag-high", "raised"), ("lag-high", "over")]
    assert open_alerts(later(golden, 16)) == ()


def test_nothing_is_written_while_nothing_is_wrong(recovery: RecoveryContext) -> None:
    tell_news(recovery, [], run="run 1", tell=Told())
    assert not (root(recovery) / "alerts").exists()


def test_what_could_not_be_told_is_raised_and_told_by_the_next_run(golden: OpenGolden) -> None:
    with pytest.raises(ConnectionError):
        tell_news(later(golden, 0), [LAG], run="run 1", tell=Told(out=True))
    told = Told()
    tell_news(later(golden, 5), [LAG], run="run 2", tell=told)
    assert told.heard == [("lag-high", "raised")]


def test_of_two_runs_at_once_one_tells(golden: OpenGolden) -> None:
    first, second = later(golden, 0), later(golden, 0)
    told = Told()

    def slowly(notices: Sequence[Notice]) -> None:
        tell_news(second, [LAG], run="run 2", tell=told)
        told(notices)

    tell_news(first, [LAG], run="run 1", tell=slowly)
    assert told.heard == [("lag-high", "raised")]


def test_a_failed_run_is_told_once_and_its_end_with_the_next_that_succeeds(golden: OpenGolden) -> None:
    told, source = Told(), "dag streams_backup_golden"
    for minutes in (0, 60):
        failed = run_failed("streams_backup_golden", f"run {minutes}", "task publish failed", docs="docs")
        run_ended(later(golden, minutes), failed, source=source, run=f"run {minutes}", tell=told)
    # What the monitor finds meanwhile does not end it.
    tell_news(later(golden, 90), [], run="monitor", tell=told)
    run_ended(later(golden, 120), None, source=source, run="run 120", tell=told)
    run_ended(later(golden, 180), None, source=source, run="run 180", tell=told)
    assert told.heard == [("run-failed:streams_backup_golden", "raised"), ("run-failed:streams_backup_golden", "over")]


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    "forged",
    [
        {"news": None, "delivered_at": NOW, "delivered_severity": Severity.CRITICAL},
        {"news": None, "delivered_at": 1 << 62, "delivered_severity": Severity.CRITICAL},
        {"claimed_by": "?", "claimed_at": 1 << 62},
        {"news": None},
        {"news": News.OVER},
        {"raised_at": 1 << 62},
    ],
)
@pytest.mark.parametrize("written_by", ["?", "run 1"])
def test_an_entry_that_somebody_added_silences_no_failure(golden: OpenGolden, forged: dict[str, Any], written_by: str) -> None:
    told, recovery = Told(), later(golden, 0)
    tell_news(recovery, [OTHER], run="run 1", tell=told)
    known = open_alerts(recovery)
    alert = Alert(
        source="monitor",
        finding=LAG,
        raised_at=NOW,
        seen_at=NOW,
        news=News.RAISED,
        claimed_by=None,
        claimed_at=None,
        delivered_at=None,
        delivered_severity=None,
    )
    alert_log(recovery).append(AlertsEntry(at=NOW, run=written_by, alerts=(*known, replace(alert, **forged))))
    tell_news(later(golden, 1), [OTHER, LAG], run="run 2", tell=told)
    assert told.heard == [("disk-full", "raised"), ("lag-high", "raised")]


def test_a_strange_entry_silences_nobody(golden: OpenGolden) -> None:
    recovery = later(golden, 0)
    told = Told()
    tell_news(recovery, [LAG], run="run 1", tell=told)
    newest = max((root(recovery) / "alerts").iterdir())
    newest.with_name(f"{int(newest.stem) + 1:012}.json").write_bytes(b"junk")
    tell_news(later(golden, 5), [LAG, finding("lock-unreadable", Severity.CRITICAL, "x")], run="run 2", tell=told)
    assert told.heard == [("lag-high", "raised"), ("lock-unreadable", "raised")]


def test_the_log_stays_short(golden: OpenGolden) -> None:
    for number in range(80):
        tell_news(later(golden, number), [LAG], run=f"run {number}", tell=Told())
    assert len(list((root(later(golden, 0)) / "alerts").iterdir())) <= 50
