"""The state that logs stand for, counted and digested. It finds the newest row of a key in another way than the compaction that it judges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.window import Window

from spark_jobs.transforms.keyed_rows import by_log, one_log_at_a_time
from spark_jobs.transforms.task_runner import results_of_tasks
from streams_recovery.core.compaction.values import RangeToCompact
from streams_recovery.core.kafka_types import StoreKind

# The header that Kafka Streams gives every value of a suppress buffer, and the only version whose keys are the buffer's own.
_VERSION_HEADER: Final = "v"
_VERSION: Final = bytes([3])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedState:
    """A log as state. ``rows`` were read, ``keys`` found in them, ``state`` of these count; ``foreign`` rows are of another kind of store."""

    log: int
    rows: int
    keys: int
    state: int
    foreign: int
    digest: str


def no_state(log: int) -> KeyedState:
    """The state of a log without a row."""
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415  # kept with the code that reads Kafka

    return KeyedState(log=log, rows=0, keys=0, state=0, foreign=0, digest=RowDigest().hexdigest())


def states(rows: DataFrame, partitions: Sequence[RangeToCompact]) -> dict[int, KeyedState]:
    """The state of each log that has a row, by its number."""
    keeping = frozenset(log for log, wanted in enumerate(partitions) if wanted.keeps_deleted)

    def digest(batches: Iterator[pa.RecordBatch]) -> Iterator[KeyedState]:
        for log, pieces in itertools.groupby(by_log(batches), key=lambda piece: piece[0]):
            yield digested(log, (piece for _, piece in pieces), keeps_deleted=log in keeping)

    last = last_of_each_key(rows, [log for log, wanted in enumerate(partitions) if wanted.kind is StoreKind.SUPPRESS])
    return {state.log: state for state in results_of_tasks(one_log_at_a_time(last, len(partitions), "key"), digest, KeyedState)}


def last_of_each_key(rows: DataFrame, buffers: Sequence[int]) -> DataFrame:
    """The row of each key that no later one follows, with the number of rows the key has and how many of them are foreign. ``buffers`` are the logs of
    suppress stores. Rows without a key are one key of their own.
    """
    in_order = Window.partitionBy("log", "key").orderBy("offset")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = rows.select(
        "*",
        F.row_number().over(in_order).alias("rows"),
        F.sum(_foreign(buffers).cast("long")).over(so_far).alias("foreign"),
        F.lead("offset").over(in_order).alias("later"),
    )
    return found.filter(F.col("later").isNull()).drop("later")


def _foreign(buffers: Sequence[int]) -> Column:
    known = F.exists("headers", lambda header: (header["key"] == _VERSION_HEADER) & (header["value"] == F.lit(_VERSION)))
    # exists() of a row without headers is null, which a sum leaves out. No suppress buffer has written such a row.
    return F.col("log").isin(list(buffers)) & F.col("value").isNotNull() & ~F.coalesce(known, F.lit(False))  # noqa: FBT003  # as Spark has it


def digested(log: int, pieces: Iterator[pa.RecordBatch], *, keeps_deleted: bool) -> KeyedState:
    """The state of one log from the last row of each of its keys, in the order of keys. Runs in a task."""
    from streams_recovery.segments.schema import RowDigest  # noqa: PLC0415  # as above

    digest = RowDigest()
    rows = keys = foreign = 0
    for piece in pieces:
        rows += _total(piece, "rows")
        foreign += _total(piece, "foreign")
        keyed = piece.filter(pc.is_valid(piece.column("key")))
        keys += len(keyed)
        digest.update(keyed if keeps_deleted else keyed.filter(pc.is_valid(keyed.column("value"))))
    return KeyedState(log=log, rows=rows, keys=keys, state=digest.rows, foreign=foreign, digest=digest.hexdigest())


def _total(piece: pa.RecordBatch, name: str) -> int:
    total: Any = pc.sum(piece.column(name)).as_py()
    return int(total or 0)
