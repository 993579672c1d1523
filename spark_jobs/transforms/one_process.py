"""What tasks need of Spark, in the process that has the job: for small jobs, which are done before Spark would have started.

It imports nothing of Spark's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")
R = TypeVar("R")
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

    def add(self, term: T) -> None:
        """Add it at once."""
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
        """Run one after the other. The first error ends them."""
        return [found for share in self.shares for found in self.run([share])]


@dataclass(frozen=True, slots=True)
class OneProcess:
    """The part of a ``SparkContext`` that jobs use which ask nothing in SQL. A task runs once."""

    defaultParallelism: Final[int] = 1  # noqa: N815  # Spark's name

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
