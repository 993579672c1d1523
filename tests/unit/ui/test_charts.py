"""A chart and the number beside it say the same."""

from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.status.report import HistoryPoint
from streams_recovery.ui.charts import charts
from tests.support.examples.statuses import report


def test_a_curve_ends_with_what_the_page_says_now_and_not_with_the_last_look_of_the_monitor() -> None:
    looked = HistoryPoint(at=1, changelog_bytes=10, state_bytes=10, repository_bytes=0, lag=7, newest_age_seconds=None)
    now = replace(report("orders"), taken_at=90_000, history=(looked,), repository_bytes=2_700_000)
    shown = {chart.title: str(chart.image) for chart in charts(now)}
    assert "Repository: now 2.7 MB, at most 2.7 MB" in shown["Repository"]
    assert "now 7" in shown["Lag of the inputs"], "of what only the monitor sees its last look counts"
