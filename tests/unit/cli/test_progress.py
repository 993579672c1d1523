from __future__ import annotations

import pytest

from streams_recovery.cli.progress import _lines, shown_progress
from streams_recovery.core.jobs.progress import JobProgress

SEEN = JobProgress(
    job="restore",
    phase="loading",
    at=0,
    seconds=20.0,
    records=5,
    records_total=10,
    bytes=120,
    tasks=1,
    tasks_done=0,
    records_per_second=1.0,
    bytes_per_second=None,
    percent=50,
    seconds_left=5.0,
)


def test_where_nobody_looks_it_is_a_line_now_and_then_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    show = _lines("load_records", clock=lambda: now)
    for now in (0.0, 10.0, 29.0, 30.0, 45.0):  # noqa: B007  # the clock reads it
        show(SEEN)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["load_records: loading: 5 of 10 records (50 %), 120 B, 1 records/s, 5 s left, 0 of 1 tasks done"] * 2


def test_a_terminal_has_a_bar_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with shown_progress("load_records") as show:
        show(SEEN)
    out, err = capsys.readouterr()
    assert out == ""
    assert "load_records" in err
    assert "50%" in err
