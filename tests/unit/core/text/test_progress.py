from __future__ import annotations

from dataclasses import replace

from streams_recovery.core.progress import JobProgress
from streams_recovery.core.text.progress import progress_text

SEEN = JobProgress(
    job="restore",
    phase="loading",
    at=0,
    seconds=20.0,
    records=1_200_000,
    records_total=3_400_000,
    bytes=120_000_000,
    tasks=16,
    tasks_done=3,
    records_per_second=61_234.4,
    bytes_per_second=2_100_000.0,
    percent=35,
    seconds_left=36.0,
)


def test_one_line_has_every_number() -> None:
    assert (
        progress_text(SEEN)
        == "loading: 1,200,000 of 3,400,000 records (35 %), 120 MB, 61,234 records/s, 2.1 MB/s, 36 s left, 3 of 16 tasks done"
    )


def test_what_is_not_known_is_left_out() -> None:
    bare = replace(SEEN, records_total=None, records_per_second=None, bytes_per_second=None, percent=None, seconds_left=None)
    assert progress_text(bare) == "loading: 1,200,000 records, 120 MB, 3 of 16 tasks done"
