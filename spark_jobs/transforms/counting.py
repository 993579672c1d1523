"""Counting in a task what it does. A task that ends brings its count along in an accumulator. One that runs for longer stores it in the repository now and
then, because accumulators arrive with the end of a task only, and the repository is the one place that workers and the driver both reach. A short one stores
nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from spark_jobs.access import JobAccess
from spark_jobs.transforms.one_process import Adding
from streams_recovery.core.jobs.progress import TaskReport, more
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.progress_store import report_task
from streams_recovery.storage.repository import Repository

# How often a task stores what it has done, in seconds.
TASK_SECONDS: Final = 20.0

Counts = dict[int, tuple[int, int]]


class LastOfEachTask(Adding[Counts]):
    """Records and bytes by the number of a task. A task that ran twice counts once."""

    def zero(self, value: Counts) -> Counts:  # noqa: ARG002  # as Spark calls it
        return {}

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802  # as Spark calls it
        """Both; of a task that both have, the second."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The way by which tasks of one phase tell what they have done. Travels in their closure. ``first`` is the number of the job's first task in the phase."""

    access: JobAccess
    directory: str
    phase: int
    finished: Any
    every: float
    first: int = 0


class _Task:
    """The count of what the running task has done. Counted by one thread, stored by another one."""

    def __init__(self, number: int) -> None:
        self.report = TaskReport(task=number, records=0, payload_bytes=0)

    def add(self, records: int, payload_bytes: int) -> None:
        self.report = more(self.report, records, payload_bytes)


class _Running(threading.local):
    """What runs in this thread: a Python worker runs one task at a time, a process without Spark one in each thread. Without a channel nothing is counted."""

    task: _Task | None = None


_running: Final = _Running()


def count(records: int, payload_bytes: int = 0) -> None:
    """Say in a task that so much more is done. Called by the task's own thread."""
    if _running.task is not None:
        _running.task.add(records, payload_bytes)


def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The ``batches`` as they are, each counted when the next one is asked for."""
    if _running.task is None:
        yield from batches
        return
    # Shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.schema import payload_bytes  # noqa: PLC0415

    for batch in batches:
        yield batch
        count(len(batch), payload_bytes(batch))


@contextlib.contextmanager
def counting(number: int, channel: Channel | None) -> Iterator[None]:
    """Count what task ``number`` of a job does in this block, and tell it by the ``channel``. Runs in the task."""
    if channel is None:
        yield
        return
    task, over = _Task(channel.first + number), threading.Event()
    # As Spark's own TaskContext: what counts has no way to be given it.
    _running.task = task
    threading.Thread(target=_store_now_and_then, args=(task, channel, over), name="task-progress", daemon=True).start()
    try:
        yield
        done = task.report
        channel.finished.add({done.task: (done.records, done.payload_bytes)})
    finally:
        over.set()
        _running.task = None


def _store_now_and_then(task: _Task, channel: Channel, over: threading.Event) -> None:
    # One try: what is late is replaced by what comes next.
    repository = Repository(channel.access.location, channel.access.credentials, Retries(attempts=1))
    while not over.wait(channel.every):
        report_task(repository, channel.directory, channel.phase, task.report, now=time.time())
