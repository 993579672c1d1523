"""How far a job is, in one line."""

from __future__ import annotations

from streams_recovery.core.progress import JobProgress
from streams_recovery.core.text.units import size, span


def progress_text(progress: JobProgress) -> str:
    """Such as ``loading: 1,200,000 of 3,400,000 records (35 %), 120 MB, 61,234 records/s, 2.1 MB/s, 36 s left, 3 of 16 tasks done``."""
    total = "" if progress.records_total is None else f" of {progress.records_total:,}"
    share = "" if progress.percent is None else f" ({progress.percent} %)"
    parts = [f"{progress.records:,}{total} records{share}", size(progress.bytes)]
    if progress.records_per_second is not None:
        parts.append(f"{progress.records_per_second:,.0f} records/s")
    if progress.bytes_per_second:
        parts.append(f"{size(progress.bytes_per_second)}/s")
    if progress.seconds_left is not None:
        parts.append(f"{span(progress.seconds_left)} left")
    return f"{progress.phase}: {', '.join([*parts, f'{progress.tasks_done} of {progress.tasks} tasks done'])}"
