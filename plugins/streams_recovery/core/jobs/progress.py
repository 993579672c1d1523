"""The progress of a Spark job: from what its tasks report to a rate, a percentage and the time that is left. Pure.

A task that Spark starts again begins at nothing, so what is done may become less. Then the percentage falls too, and nothing is ever negative. Until the end
there is no 100 %: a result is only there when everything was checked.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from streams_recovery.core.words import size, span

# A rate is over this long, in seconds: long enough for tasks that report now and then, short enough to follow a change.
WINDOW: Final = 180.0
_MOST_BEFORE_THE_END: Final = 99
# A driver stores what it sees as often as this, and less often the longer the job runs. Seconds.
STORE_SECONDS: Final = 30.0
_STORE_SHARE: Final = 20
# After so many pauses without news a job is taken for over or lost.
MISSED: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """Work that one attempt of a task has done so far. ``task`` is its number in its phase."""

    task: int
    records: int
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """One look at a job. ``phase`` is what it does now. ``records_total`` are the records of that phase, None while unknown. ``at`` in milliseconds
    since the epoch, ``seconds`` since the phase began. Rates are per second. ``percent``, rates and ``seconds_left`` are None while unknown.
    ``bytes`` are those of keys and values.
    """

    job: str
    phase: str
    at: int
    seconds: float
    records: int
    records_total: int | None
    bytes: int
    tasks: int
    tasks_done: int
    records_per_second: float | None
    bytes_per_second: float | None
    percent: int | None
    seconds_left: float | None


class PhaseMeter:
    """Measures one phase. Times are seconds of a clock that only goes forward."""

    def __init__(self, job: str, phase: str, *, records: int | None, tasks: int, began: float) -> None:
        self._job = job
        self._phase = phase
        self._records = records
        self._tasks = tasks
        self._began = began
        self._running: dict[int, TaskReport] = {}
        self._finished: dict[int, TaskReport] = {}
        self._samples: deque[tuple[float, int, int]] = deque([(began, 0, 0)])

    def running(self, reports: Iterable[TaskReport]) -> None:
        """Take reports of tasks that are not over. The last word of a task counts: an attempt that failed is begun anew."""
        self._running |= {report.task: report for report in reports}

    def finished(self, reports: Iterable[TaskReport]) -> None:
        """Take reports of tasks that are over."""
        self._finished |= {report.task: report for report in reports}

    @property
    def done(self) -> tuple[int, int]:
        """Records and bytes of all tasks."""
        last = {**self._running, **self._finished}
        return sum(report.records for report in last.values()), sum(report.payload_bytes for report in last.values())

    def look(self, now: float, at: int) -> JobProgress:
        """The progress ``now``; ``at`` is the same moment in milliseconds since the epoch."""
        records, size = self.done
        self._samples.append((now, records, size))
        while len(self._samples) > 2 and self._samples[1][0] <= now - WINDOW:  # noqa: PLR2004  # two are needed for a rate
            self._samples.popleft()
        rate, bytes_rate = self._rate(1), self._rate(2)
        left = None if self._records is None else max(0, self._records - records)
        return JobProgress(
            job=self._job,
            phase=self._phase,
            at=at,
            seconds=max(0.0, now - self._began),
            records=records,
            records_total=self._records,
            bytes=size,
            tasks=self._tasks,
            tasks_done=len(self._finished),
            records_per_second=rate,
            bytes_per_second=bytes_rate,
            percent=percent(records, self._records),
            seconds_left=left / rate if rate and left else None,
        )

    def _rate(self, which: int) -> float | None:
        """Per second over the samples that are kept. Work that was lost with an attempt does not count as less than nothing."""
        samples = list(self._samples)
        span = samples[-1][0] - samples[0][0]
        gained = sum(max(0, later[which] - earlier[which]) for earlier, later in itertools.pairwise(samples))
        return gained / span if span > 0 else None


def percent(records: int, total: int | None) -> int | None:
    """Whole percents, never 100: only the end is that. None without a total."""
    return None if not total else max(0, min(_MOST_BEFORE_THE_END, 100 * records // total))


def is_alive(progress: JobProgress, *, now: int) -> bool:
    """False when the driver has been silent for so long that its job is over or lost. ``now`` in milliseconds since the epoch."""
    return now - progress.at <= 1000 * MISSED * store_pause(progress.seconds)


def store_pause(seconds: float) -> float:
    """Seconds after which a driver stores its progress again when its phase runs for ``seconds``: some hundred objects for the longest job."""
    return max(STORE_SECONDS, seconds / _STORE_SHARE)


def more(report: TaskReport, records: int, payload_bytes: int) -> TaskReport:
    """The report after some more work."""
    return replace(report, records=report.records + records, payload_bytes=report.payload_bytes + payload_bytes)


def progress_directory(result_key: str) -> str:
    """Prefix of all that is stored about the progress of the job that will leave this result."""
    directory, _, name = result_key.rpartition("/")
    return f"{directory}/progress/{name.removesuffix('.json')}/"


def job_key(result_key: str, number: int) -> str:
    """The key at which a job stores its progress the ``number``-th time."""
    return f"{progress_directory(result_key)}{number:06}.json"


def tasks_prefix(directory: str, phase: int, slice_number: int) -> str:
    """Prefix of what tasks of a phase report in one slice of time."""
    return f"{directory}tasks/{phase:03}/{slice_number:012}/"


def progress_text(progress: JobProgress) -> str:
    """A line such as ``loading: 1,200,000 of 3,400,000 records (35 %), 120 MB, 61,234 records/s, 2.1 MB/s, 36 s left, 3 of 16 tasks done``."""
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
