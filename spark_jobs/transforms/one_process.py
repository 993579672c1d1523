"""What tasks need of Spark, in the process that has the job: for small jobs, which are done before Spark would have started.

It imports nothing of Spark's.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from streams_recovery.core.errors import RecoveryError

T = TypeVar("T")
R = TypeVar("R")
# Tasks at once, each in a thread: what takes time is compiled code, which leaves the interpreter to others. Four are no faster than two on two cores.
SLOTS: Final = 2
if TYPE_CHECKING:
    from pyspark import AccumulatorParam, SparkContext, TaskContext
else:

    class AccumulatorParam(Generic[T]):
        """Spark asks for the methods alone, and its own class comes with all of its package."""


class Adding(AccumulatorParam[T]):
    """The base of what adds up an accumulator."""


@dataclass(slots=True)
class Total(Generic[T]):
    """An accumulator of Spark."""

    value: T
    kind: AccumulatorParam[T]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, term: T) -> None:
        """Add it at once."""
        with self.lock:
            self.value = self.kind.addInPlace(self.value, term)


@dataclass(frozen=True, slots=True)
class Shares(Generic[T]):
    """The shares of all tasks: an RDD of Spark with one of them in each slice."""

    shares: Sequence[T]

    def mapPartitions(self, run: Callable[[Iterable[T]], Iterator[R]]) -> TasksToRun[T, R]:  # noqa: N802  # Spark's name
        """The tasks that do ``run`` with their share."""
        return TasksToRun(self.shares, run)


@dataclass(frozen=True, slots=True)
class TasksToRun(Generic[T, R]):
    """Tasks that have not begun."""

    shares: Sequence[T]
    run: Callable[[Iterable[T]], Iterator[R]]

    def collect(self) -> list[R]:
        """Run them in their order, as many at once as there are slots. None begins after the first error, which is raised when those that run have ended."""
        with ThreadPoolExecutor(SLOTS, "task") as pool:
            running = [pool.submit(self._all_of, share) for share in self.shares]
            try:
                wait(running, return_when=FIRST_EXCEPTION)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        failed = [error for one in running if not one.cancelled() and (error := one.exception()) is not None]
        if failed:
            # One of ours says more.
            raise next((error for error in failed if isinstance(error.__cause__, RecoveryError)), failed[0])
        return [found for one in running for found in one.result()]

    def _all_of(self, share: T) -> list[R]:
        return list(self.run([share]))


@dataclass(frozen=True, slots=True)
class OneProcess:
    """The part of a ``SparkContext`` that jobs use which ask nothing in SQL. A task runs once."""

    defaultParallelism: Final[int] = SLOTS  # noqa: N815  # Spark's name

    def parallelize(self, shares: Sequence[T], _slices: int) -> Shares[T]:
        """A task for each share."""
        return Shares(shares)

    def accumulator(self, value: T, kind: AccumulatorParam[T]) -> Total[T]:
        """A total that begins with ``value``."""
        return Total(value, kind)


Tasks: TypeAlias = "SparkContext | OneProcess"
"""Where the tasks of a job run."""


def running_task() -> TaskContext | None:
    """Spark's task that this process runs; None in a process without Spark."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import TaskContext  # noqa: PLC0415  # it is there

    return TaskContext.get()
