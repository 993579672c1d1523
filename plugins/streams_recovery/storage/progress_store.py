"""Progress of jobs, in the repository and on the machine that a driver and its submitter share.

In the repository tasks report to their driver, and the driver stores progress for pages. Each object is created once. On the machine the driver leaves it in
a small file beside the receipt, which is replaced each time.

Progress is only shown to people. So every failure here is passed over: a job must not fail because its progress cannot be told.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import Damaged, RecoveryError
from streams_recovery.core.jobs.progress import JobProgress, TaskReport, is_alive, job_key, tasks_prefix
from streams_recovery.core.repository.layout import Layout
from streams_recovery.storage.json_object import create_value, read_value
from streams_recovery.storage.objects import read_local
from streams_recovery.storage.repository import Repository

# Tasks report in slices of time, so that their driver lists only what is new. Seconds.
SLICE: Final = 30
_MOST_BYTES: Final = 65_536
_JOB: Final = re.compile(r"[0-9]{6}\.json")


def report_task(repository: Repository, directory: str, phase: int, report: TaskReport, *, now: float) -> bool:
    """Store the work that a task has done so far; ``now`` in seconds since the epoch. False when it could not be stored."""
    key = f"{tasks_prefix(directory, phase, int(now // SLICE))}{report.task}-{uuid.uuid4().hex}.json"
    try:
        create_value(repository, key, report, most_bytes=_MOST_BYTES)
    except RecoveryError:
        return False
    return True


def task_reports(repository: Repository, directory: str, phase: int, *, now: float) -> list[TaskReport]:
    """Reports of a phase's tasks in the last slices, the oldest first. Their clocks may differ from this one's by a slice."""
    found: list[TaskReport] = []
    current = int(now // SLICE)
    for number in (current - 1, current, current + 1):
        try:
            files = sorted(repository.listed(tasks_prefix(directory, phase, number)), key=lambda file: file.modified)
            found += [read_value(repository, TaskReport, file.key, most_bytes=_MOST_BYTES) for file in files]
        except RecoveryError:
            continue
    return found


def store_progress(repository: Repository, result_key: str, number: int, progress: JobProgress) -> bool:
    """Store how far a job is, the ``number``-th time. False when it could not be stored."""
    try:
        create_value(repository, job_key(result_key, number), progress, most_bytes=_MOST_BYTES)
    except RecoveryError:
        return False
    return True


def progress_of_run(repository: Repository, layout: Layout, run: str, *, running_at: int | None = None) -> list[JobProgress]:
    """The newest progress of each Spark job of a run, in the order of their moments. For pages: one listing, and one object for each job. With
    ``running_at`` (ms) only of jobs that have left no result and were heard of lately.
    """
    artifacts = f"{layout.work(run, 'any').rpartition('/')[0]}/"
    keys = list(repository.keys(artifacts))
    over = {key.removesuffix(".json").removeprefix(artifacts) for key in keys} if running_at is not None else set()
    newest: dict[str, str] = {}
    for key in keys:
        directory, _, name = key.rpartition("/")
        job = directory.removeprefix(f"{artifacts}progress/")
        if job != directory and "/" not in job and job not in over and _JOB.fullmatch(name):
            newest[job] = key
    found: list[JobProgress] = []
    for key in newest.values():
        try:
            found.append(read_value(repository, JobProgress, key, most_bytes=_MOST_BYTES))
        except RecoveryError:
            continue
    alive = found if running_at is None else [one for one in found if is_alive(one, now=running_at)]
    return sorted(alive, key=lambda progress: progress.at)


def progress_path(receipt: Path) -> Path:
    """The file beside a job's receipt."""
    return receipt.with_name("progress.json")


def read_progress(path: Path) -> JobProgress | None:
    """The progress that the driver left last, None before it left anything that can be read."""
    try:
        return read_local(JobProgress, path, most_bytes=_MOST_BYTES)
    except Damaged:
        return None
