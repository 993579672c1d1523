"""Items of work in Spark tasks, one small result each back to the driver."""

from __future__ import annotations

import base64
import importlib
import pickle
import re
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from spark_jobs.transforms.counting import Channel, counting
from spark_jobs.transforms.one_process import Adding, OneProcess, Tasks, running_task
from spark_jobs.transforms.progress import Doing, begin_phase
from streams_recovery.core import codec
from streams_recovery.core.errors import WAITED_OUT, RecoveryError, of_machine, without_secret_causes
from streams_recovery.core.jobs.spec import JobFailure
from streams_recovery.core.masking import masked
from streams_recovery.core.work import TASKS_A_SLOT, bundled
from streams_recovery.segments.arrow import without_pandas

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, Row, SparkSession

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
F = TypeVar("F")
Opened = Callable[[Sequence[I]], AbstractContextManager[Callable[[I], R]]]

_MARK: Final = "streams-recovery-error:"
# Not nothing: what is around a mark could be one then.
_UNMARKED: Final = "streams-recovery-error "
# Of one follower, Spark jobs at once. What ends while all of them run is taken up together by the next one.
_FOLLOWERS: Final = 4
_LOOK_SECONDS: Final = 0.1


class TaskFailed(Exception):
    """Raised in the driver for one of our errors that ended a task; ``cause`` is that error."""

    def __init__(self, cause: RecoveryError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def cause_of(error: RecoveryError | TaskFailed) -> RecoveryError:
    """Our error, whether it was raised in the driver or ended a task."""
    return error.cause if isinstance(error, TaskFailed) else error


def passing(error: RecoveryError | TaskFailed) -> RecoveryError:
    """Our error where it may be over later, for work without an end. Raises ``error`` itself where it may not."""
    cause = cause_of(error)
    if isinstance(cause, WAITED_OUT):
        return cause
    raise error


def run_tasks(
    context: Tasks,
    items: Sequence[I],
    work: Callable[[I], R],
    kind: type[R],
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # it never changes
) -> list[R]:
    """``work`` of each item; results in the order of the items. ``R`` is a dataclass of core. ``records`` and ``doing`` are as for ``in_tasks``.

    Raises ``TaskFailed`` for the first error of ours that Spark did not retry away, Spark's own exceptions for anything else.
    """
    return spread_sharing(context, items, lambda _: nullcontext(partial(at_once, work)), kind, records, doing)


def spread_sharing(
    context: Tasks,
    items: Sequence[I],
    opened: Opened[I, Callable[[], R]],
    kind: type[R],
    records: Callable[[I], int] | None = None,
    doing: Doing = Doing(),  # noqa: B008  # as above
) -> list[R]:
    """Like ``run_tasks``, of work that shares something in each task. ``opened`` is called once in a task, with all its items in their order, and gives
    the work for them, for as long as its context lasts. The work of an item returns what has the result: it is asked when the next item's work is done, so
    that an end that only waits, such as an upload, goes on beside it.
    """
    if not items:
        return []

    counted = None if records is None else lambda each: records(each[1])
    shares, channel = _divided(context, list(enumerate(items)), counted, doing)
    tasks = context.parallelize(shares, len(shares))

    def run(mine: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        without_pandas()
        for share in mine:
            yield from _of_share(share, channel, partial(_one_behind, opened))

    # No rows, so no SQL: its first plan costs a job a second.
    found = dict(run_action(tasks.mapPartitions(run).collect))
    return [codec.loads(kind, found[number], where="a task's result") for number in range(len(items))]


def _one_behind(opened: Opened[I, Callable[[], R]], mine: Sequence[tuple[int, I]]) -> Iterator[tuple[int, bytes]]:
    """Number and result of each item, asked for when the work of the next one is done, and of the last one when all is closed."""
    before: tuple[int, Callable[[], R]] | None = None
    with opened([item for _, item in mine]) as work:
        for number, item in mine:
            left = work(item)
            if before is not None:
                yield before[0], codec.dumps(before[1]())
            before = number, left
    if before is not None:
        yield before[0], codec.dumps(before[1]())


class Numbers(Adding[frozenset[int]]):
    """Numbers, gathered. Spark adds those of a task when that has ended, and of one that failed none."""

    def zero(self, value: frozenset[int]) -> frozenset[int]:  # noqa: ARG002  # as Spark calls it
        return frozenset()

    def addInPlace(self, value1: frozenset[int], value2: frozenset[int]) -> frozenset[int]:  # noqa: N802  # as Spark calls it
        """Both."""
        return value1 | value2


def run_followed(
    context: Tasks,
    items: Sequence[I],
    leader: Callable[[Sequence[tuple[int, I]], Callable[[int], None]], list[R]],
    follower: Callable[[Sequence[I]], list[F]],
) -> tuple[list[R], list[F]]:
    """Run ``leader`` over all numbered items, a Spark job that tells the number of each item as the last thing in its task. Run ``follower`` over the items
    whose task has ended, in Spark jobs of its own beside the leader, as soon as a slot is free that the leader has no task for. Followers' results are in the
    order in which they ended. One process follows when it has led.

    The first error ends both and is the one that is raised; one of ours goes before one of Spark's.
    """
    if isinstance(context, OneProcess):
        led = leader(list(enumerate(items)), lambda _: None)
        return led, follower(items) if items else []
    ended, slots, left = context.accumulator(frozenset[int](), Numbers()), context.defaultParallelism, dict(enumerate(items))
    following: list[Future[list[F]]] = []
    with ThreadPoolExecutor(1 + _FOLLOWERS) as pool:
        leading = pool.submit(leader, list(left.items()), lambda number: ended.add(frozenset({number})))
        try:
            while left or _running([leading, *following]):
                over = left.keys() if leading.done() else ended.value
                due = sorted(over & left.keys())
                # Spark gives a slot to the older job first, so before that a follower could only wait.
                free = leading.done() or len(items) - len(over) < slots
                if due and free and len(_running(following)) < _FOLLOWERS:
                    following.append(pool.submit(follower, [left.pop(number) for number in due]))
                else:
                    wait(_running([leading, *following]), timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)
        except BaseException:
            _cancel(context, [leading, *following])
            raise
    return leading.result(), [found for each in following for found in each.result()]


def _running(futures: Sequence[Future[Any]]) -> list[Future[Any]]:
    """The futures that have not ended. Raises the error of one that failed, one of ours if there is one."""
    errors = [error for each in futures if each.done() and (error := each.exception()) is not None]
    if errors:
        raise next((error for error in errors if isinstance(error, TaskFailed)), errors[0])
    return [each for each in futures if not each.done()]


def _cancel(context: SparkContext, futures: Sequence[Future[Any]]) -> None:
    # Again and again: a thread may be about to start its job.
    while not all(each.done() for each in futures):
        context.cancelAllJobs()
        wait(futures, timeout=_LOOK_SECONDS)


def sql_session() -> SparkSession:
    """The session of what asks in SQL. Its classes cost a job as much as the start of Spark does, so who only needs tasks makes none."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # as said

    return SparkSession.builder.getOrCreate()


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
    shares, channel = _divided(spark.sparkContext, items, records, doing)
    tasks = spark.sparkContext.parallelize(shares, max(1, len(shares)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        without_pandas()
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield from _of_share(share, channel, partial(_rows, opened))

    return spark.createDataFrame(tasks.map(lambda share: (share,)), "share binary").mapInArrow(run, schema)


def at_once(work: Callable[[I], R], item: I) -> Callable[[], R]:
    """Work that has its result when it returns, for ``spread_sharing``."""
    done = work(item)
    return lambda: done


def _divided(context: Tasks, items: Sequence[I], records: Callable[[I], int] | None, doing: Doing) -> tuple[list[bytes], Channel | None]:
    """The shares of all tasks, each with its number and its items, and how they tell what they have done."""
    groups = [[at] for at in range(len(items))]
    if records is not None:
        groups = bundled([records(item) for item in items], least=TASKS_A_SLOT * context.defaultParallelism)
    # As data and not in the closure, of which each task gets a copy: a task is sent its own items, not those of the whole job.
    shares = [pickle.dumps((number, [items[at] for at in group])) for number, group in enumerate(groups)]
    # Of n elements in n slices number i is in slice i, and tasks start in that order.
    return shares, begin_phase(context, doing, len(groups))


def _of_share(share: bytes, channel: Channel | None, results: Callable[[Sequence[I]], Iterator[R]]) -> Iterator[R]:
    number, mine = pickle.loads(share)  # noqa: S301  # the driver of this very job wrote it
    with counting(number, channel):
        yield from marking(results, mine)


def attempt_name(run: str = "") -> str:
    """A name for the files of the running task that no other attempt has, with the ``run`` in front. Spark counts attempts within one job: the next job's begin
    at 0 again, so the number alone would not be new.
    """
    task = running_task()
    return f"{run}{'-' if run else ''}{task.taskAttemptId() if task else 0}-{uuid.uuid4().hex}"


def warm_up(context: SparkContext) -> None:
    """Start a worker for each slot and import there what the first tasks will need: for who has time before there is work."""
    slots = context.defaultParallelism
    context.parallelize(range(slots), slots).mapPartitions(_imported).collect()


def _imported(_slots: Iterable[int]) -> Iterator[int]:
    without_pandas()
    for name in ("kafka.reader", "kafka.range_copy", "kafka.writer", "segments.files"):
        importlib.import_module(f"streams_recovery.{name}")
    return iter(())


def _rows(opened: Opened[I, Iterator[pa.RecordBatch]], mine: Sequence[I]) -> Iterator[pa.RecordBatch]:
    with opened(mine) as work:
        for item in mine:
            yield from work(item)


def collected(rows: DataFrame) -> list[Row]:
    """``rows`` in the driver: for results, never for records. Raises ``TaskFailed``."""
    return run_action(rows.collect)


def results_of_tasks(rows: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[R]], kind: type[R]) -> list[R]:
    """The results of ``work``, which is given all rows of a task. ``R`` is a small dataclass. Raises ``TaskFailed``."""

    def encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for result in work(batches):
            yield pa.record_batch([pa.array([codec.dumps(result).decode()])], names=["result"])

    done = rows.mapInArrow(lambda batches: marking(encoded, batches), "result string")
    return [codec.loads(kind, row.result.encode(), where="a task's result") for row in collected(done)]


def run_action(action: Callable[[], R]) -> R:
    """The result of an action of Spark. Raises ``TaskFailed`` for an error of ours that ended a task."""
    try:
        return action()
    # Of Spark's own exceptions, or of the bridge's where no SQL session has replaced those: ours is the one with the mark.
    except Exception as error:
        cause = _error_in(str(error))
        if cause is None:
            raise
        raise TaskFailed(cause) from None


def _error_in(text: str) -> RecoveryError | None:
    """The error of ours that a task's traceback carries, if it does."""
    # The last one is that of ``marking``: what our error quotes comes before it, and may look like one.
    found = re.findall(_MARK + r"([A-Za-z0-9+/=]+)", text)
    if not found:
        return None
    return codec.loads(JobFailure, base64.b64decode(found[-1]), where="a task's error").as_error()


def marking(work: Callable[[I], Iterator[R]], item: I) -> Iterator[R]:
    """``work`` of ``item`` in a task; an error of ours on the way is marked, so that the driver can tell which one it was. So is one of the task's machine that
    stays. No other error has a mark, whatever it quotes, and none a secret: Spark writes all of it to its own logs and its event log.
    """
    try:
        try:
            yield from work(item)
        except OSError as error:
            raise of_machine(error) or error from None
    except RecoveryError as error:
        without_secret_causes(error)
        # Spark carries only the text of an exception to the driver.
        mark = base64.b64encode(codec.dumps(JobFailure.of(error))).decode()
        raise RuntimeError(f"{error} {_MARK}{mark}") from error
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if (shown := masked(text).replace(_MARK, _UNMARKED)) == text:
            raise
        raise RuntimeError(shown) from None
