"""Items of work in Spark tasks, one small result each back to the driver."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_jobs.transforms.counting import counting
from spark_jobs.transforms.progress import Doing, begin_phase
from streams_recovery.core import codec
from streams_recovery.core.bin_packing import TASKS_A_SLOT, bundled
from streams_recovery.core.errors import RecoveryError
from streams_recovery.core.jobs.spec import JobFailure

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
Opened = Callable[[Sequence[I]], AbstractContextManager[Callable[[I], R]]]

_MARK: Final = "streams-recovery-error:"


class TaskFailed(Exception):
    """Raised in the driver for one of our errors that ended a task; ``cause`` is that error."""

    def __init__(self, cause: RecoveryError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def run_tasks(
    spark: SparkSession,
    items: Sequence[I],
    work: Callable[[I], R],
    kind: type[R],
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # it never changes
) -> list[R]:
    """``work`` of each item; results in the order of the items. ``R`` is a dataclass of core. ``records`` and ``doing`` are as for ``in_tasks``.

    Raises ``TaskFailed`` for the first error of ours that Spark did not retry away, Spark's own exceptions for anything else.
    """
    return spread_sharing(spark, items, lambda _: nullcontext(work), kind, records, doing)


def spread_sharing(
    spark: SparkSession,
    items: Sequence[I],
    opened: Opened[I, R],
    kind: type[R],
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # as above
) -> list[R]:
    """Like ``run_tasks``, of work that shares something in each task. ``opened`` is called once in a task, with all its items in their order, and gives
    the work for them, for as long as its context lasts.
    """
    if not items:
        return []

    @contextmanager
    def numbered(mine: Sequence[tuple[int, I]]) -> Iterator[Callable[[tuple[int, I]], Iterator[pa.RecordBatch]]]:
        with opened([item for _, item in mine]) as work:
            yield lambda each: iter([_result(each[0], work(each[1]))])

    counted = None if records is None else lambda each: records(each[1])
    results = in_tasks_sharing(spark, list(enumerate(items)), numbered, "item long, result string", counted, doing)
    rows = sorted(collected(results), key=lambda row: int(row.item))
    return [codec.loads(kind, row.result.encode(), where="a task's result") for row in rows]


def in_tasks(
    spark: SparkSession,
    items: Sequence[I],
    work: Callable[[I], Iterator[pa.RecordBatch]],
    schema: str,
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # as above
) -> DataFrame:
    """The rows that ``work`` makes of each item. A task is sent its own items, and the driver holds them all: they must be small.

    Each has a task of its own, started in the order given; unless ``records`` tells how many an item has: then small ones share one, and the biggest
    start first, so that no straggler is left for the end. ``doing`` says what it is, for those who are told how far it is: what ``work`` itself counts
    (``counting.count``).
    """
    return in_tasks_sharing(spark, items, lambda _: nullcontext(work), schema, records, doing)


def in_tasks_sharing(
    spark: SparkSession,
    items: Sequence[I],
    opened: Opened[I, Iterator[pa.RecordBatch]],
    schema: str,
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # as above
) -> DataFrame:
    """Like ``in_tasks``, of work that shares something in each task; ``opened`` is as for ``spread_sharing``."""
    groups = [[at] for at in range(len(items))]
    if records is not None:
        groups = bundled([records(item) for item in items], least=TASKS_A_SLOT * spark.sparkContext.defaultParallelism)
    # As data and not in the closure, of which each task gets a copy: a task is sent its own items, not those of the whole job.
    shares = [(pickle.dumps((number, [items[at] for at in group])),) for number, group in enumerate(groups)]
    channel = begin_phase(spark.sparkContext, doing, len(groups))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                number, mine = pickle.loads(share)  # noqa: S301  # the driver of this very job wrote it
                with counting(number, channel):
                    yield from marking(lambda these: _rows(these, opened), mine)

    # Of n elements in n slices number i is in slice i, and tasks start in that order.
    rows = spark.sparkContext.parallelize(shares, max(1, len(shares)))
    return spark.createDataFrame(rows, "share binary").mapInArrow(run, schema)


def _rows(mine: Sequence[I], opened: Opened[I, Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    with opened(mine) as work:
        for item in mine:
            yield from work(item)


def _result(number: int, result: object) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number]), pa.array([codec.dumps(result).decode()])], names=["item", "result"])


def collected(rows: DataFrame) -> list[Row]:
    """``rows`` in the driver: for results, never for records. Raises ``TaskFailed``."""
    try:
        return rows.collect()
    except PySparkException as error:
        cause = error_in(str(error))
        if cause is None:
            raise
        raise TaskFailed(cause) from None


def error_in(text: str) -> RecoveryError | None:
    """The error of ours that a task's traceback carries, if it does."""
    found = re.search(_MARK + r"([A-Za-z0-9+/=]+)", text)
    if found is None:
        return None
    return codec.loads(JobFailure, base64.b64decode(found[1]), where="a task's error").as_error()


def marking(work: Callable[[I], Iterator[pa.RecordBatch]], item: I) -> Iterator[pa.RecordBatch]:
    """``work`` of ``item`` in a task; an error of ours on the way is marked, so that the driver can tell which one it was."""
    try:
        yield from work(item)
    except RecoveryError as error:
        # Spark carries only the text of an exception to the driver.
        mark = base64.b64encode(codec.dumps(JobFailure.of(error))).decode()
        raise RuntimeError(f"{error} {_MARK}{mark}") from error
