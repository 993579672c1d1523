"""The progress of a job: the driver puts together what its tasks count (``counting``), shows it and stores it."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import TASK_SECONDS, Channel, LastOfEachTask
from spark_jobs.transforms.one_process import Tasks
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.jobs.progress import JobProgress, PhaseMeter, TaskReport, progress_directory, progress_text, store_pause
from streams_recovery.storage.conditional_put import Retries
from streams_recovery.storage.progress_store import store_progress, task_reports
from streams_recovery.storage.repository import Repository

# How often the driver looks, and prints a line, in seconds.
LOOK_SECONDS: Final = 5.0
PRINT_SECONDS: Final = 15.0
# When the driver first stores what it sees. A short job stores nothing.
STORE_FIRST_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """The work that tasks are about to do, as people are told, and how many records that are; None where nobody knows before. ``tasks`` is for what several
    jobs of Spark do beside another phase: how many tasks they have in all.
    """

    name: str = "working"
    records: int | None = None
    tasks: int | None = None


@dataclass(slots=True, kw_only=True)
class _Phase:
    doing: Doing
    meter: PhaseMeter
    channel: Channel
    tasks: int
    began: float
    changed: float
    begun: int = 0
    done: tuple[int, int] = (0, 0)

    @property
    def finished(self) -> dict[int, tuple[int, int]]:
        """Records and bytes of its tasks that have ended."""
        return dict(self.channel.finished.value)


@dataclass(slots=True, kw_only=True)
class Board:
    """The driver's view of one job. ``show`` is given each look; ``every`` is how often it looks, and ``task_every`` how often tasks store."""

    job: str
    access: JobAccess
    result_key: str
    show: Callable[[JobProgress], object]
    every: float = LOOK_SECONDS
    task_every: float = TASK_SECONDS
    phases: list[_Phase] = field(default_factory=list)
    stored: int = 0
    store_due: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, context: Tasks, doing: Doing, tasks: int) -> Channel:
        """A phase of so many tasks is about to run, or so many tasks more of one whose tasks were told in all."""
        with self.lock:
            phase = next((each for each in self.phases if doing.tasks is not None and each.doing == doing), None)
            if phase is None:
                phase = self._begun(context, doing, tasks if doing.tasks is None else doing.tasks)
                self.phases.append(phase)
            channel = replace(phase.channel, first=phase.begun)
            phase.begun += tasks
            return channel

    def _begun(self, context: Tasks, doing: Doing, tasks: int) -> _Phase:
        now = time.monotonic()
        channel = Channel(
            access=self.access,
            directory=progress_directory(self.result_key),
            phase=len(self.phases),
            finished=context.accumulator({}, LastOfEachTask()),
            every=self.task_every,
        )
        meter = PhaseMeter(self.job, doing.name, records=doing.records, tasks=tasks, began=now)
        return _Phase(doing=doing, meter=meter, channel=channel, tasks=tasks, began=now, changed=now)

    def look(self, repository: Repository, now: float) -> JobProgress | None:
        """The progress of the phase that has changed last, None before there is any; one that runs beside another comes when that is over. ``now`` of the
        clock that only goes forward.
        """
        shown, over = [], True
        for number, phase in enumerate(list(self.phases)):
            done = phase.finished
            phase.meter.finished(TaskReport(task=task, records=records, payload_bytes=size) for task, (records, size) in done.items())
            if now - phase.began >= self.task_every and len(done) < phase.tasks:
                phase.meter.running(task_reports(repository, progress_directory(self.result_key), number, now=time.time()))
            if phase.meter.done != phase.done:
                phase.done, phase.changed = phase.meter.done, now
            if over or phase.doing.tasks is None:
                shown.append(phase)
            over = over and len(done) >= phase.tasks
        if not shown:
            return None
        return max(shown, key=lambda phase: phase.changed).meter.look(now, time.time_ns() // 1_000_000)

    def tell(self, repository: Repository, progress: JobProgress, now: float) -> None:
        """Show it, and store it when that is due."""
        self.show(progress)
        if self.store_due is None:
            self.store_due = self.phases[0].began + STORE_FIRST_SECONDS
        if now >= self.store_due:
            self.stored += 1
            store_progress(repository, self.result_key, self.stored, progress)
            self.store_due = now + store_pause(progress.seconds)


# A driver runs one job.
_board: Board | None = None


@contextlib.contextmanager
def reporting(board: Board | None) -> Iterator[None]:
    """Look at the tasks of a job now and then, for as long as the block lasts, and tell how far it is. Nothing that fails here reaches the job."""
    global _board  # noqa: PLW0603  # who starts tasks has no way to be given it
    if board is None:
        yield
        return
    over = threading.Event()
    looker = threading.Thread(target=_look_now_and_then, args=(board, over), name="job-progress", daemon=True)
    _board = board
    looker.start()
    try:
        yield
    finally:
        _board = None
        over.set()
        # Not for as long as it takes: a repository that does not answer must not hold up the job.
        looker.join(board.every)


def begin_phase(context: Tasks, doing: Doing, tasks: int) -> Channel | None:
    """A phase of so many tasks is about to run; None when nobody wants to know how far it is."""
    return None if _board is None else _board.begin(context, doing, tasks)


def _look_now_and_then(board: Board, over: threading.Event) -> None:
    repository = Repository(board.access.location, board.access.credentials, Retries(attempts=1))
    while not over.wait(board.every):
        try:
            now = time.monotonic()
            progress = board.look(repository, now)
            if progress is not None and not over.is_set():
                board.tell(repository, progress, now)
        except (RecoveryError, OSError, ValueError) as error:
            print(f"How far the job is could not be told: {type(error).__name__}", file=sys.stderr, flush=True)  # noqa: T201  # its log


@dataclass(slots=True)
class Printed:
    """A line on stderr, which is a job's log, now and then."""

    clock: Callable[[], float] = time.monotonic
    due: float = 0.0

    def __call__(self, progress: JobProgress) -> None:
        """Print it when that is due."""
        if self.clock() >= self.due:
            self.due = self.clock() + PRINT_SECONDS
            print(progress_text(progress), file=sys.stderr, flush=True)  # noqa: T201
