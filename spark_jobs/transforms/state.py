"""A changelog as the state it stands for: the latest value of each key, compared between two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.window import Window

from spark_jobs.transforms.task_runner import collected
from streams_recovery.core.jobs.spec import KeysVerified
from streams_recovery.core.kafka_types import TopicPartition

ROWS: Final = (
    "topic string, partition int, offset long, key binary, value binary, timestamp long, headers array<struct<key: string, value: binary>>"
)
EXAMPLES: Final = 20
_LOG: Final = ["topic", "partition"]
_KEY: Final = [*_LOG, "key"]


def compare_states(archived: DataFrame, loaded: DataFrame, partitions: Sequence[TopicPartition]) -> tuple[KeysVerified, ...]:
    """One comparison a partition, in the order given. One without a live key on either side compares zero keys, and says so."""
    if not partitions:
        return ()
    keys = joined(archived, loaded)
    counts = {TopicPartition(row.topic, row.partition): row for row in collected(counted(keys))}
    different = any(row.keys_different for row in counts.values())
    examples = {TopicPartition(row.topic, row.partition): tuple(row.examples) for row in collected(differing(keys))} if different else {}
    return tuple(
        KeysVerified(
            tp=tp,
            keys_compared=counts[tp].keys_compared if tp in counts else 0,
            keys_different=counts[tp].keys_different if tp in counts else 0,
            examples=examples.get(tp, ()),
        )
        for tp in partitions
    )


def latest(rows: DataFrame, name: str) -> DataFrame:
    """The live keys: the newest row of each (partition, key), unless it is a tombstone."""
    return newest(rows, name).filter(F.col(name)["value"].isNotNull()).drop("offset")


def newest(rows: DataFrame, name: str, *also: str) -> DataFrame:
    """The newest row of each (partition, key), and of each value of the columns ``also``, with its offset; a tombstone is one. Rows without a key are no
    state: Streams skips them.
    """
    found = F.max_by(F.struct("value", "timestamp", "headers"), "offset").alias(name)
    grouped = rows.filter(F.col("key").isNotNull()).groupBy(*_KEY, *also).agg(found, F.max("offset").alias("offset"))
    return grouped.select(*_KEY, *also, name, "offset")


def newest_in(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The newest row of each key of a batch. Those of a whole log are among the newest of its batches, so this may go before ``newest``: Spark would
    sort every row it is given.
    """
    keyed = batch.filter(pc.is_valid(batch.column("key")))
    keys = keyed.column("key").dictionary_encode()
    by_offset = np.argsort(keyed.column("offset").to_numpy(), kind="stable")
    last = np.zeros(len(keys.dictionary), dtype=np.int64)
    # Of several assignments to one place the last one stays.
    last[keys.indices.to_numpy()[by_offset]] = by_offset
    return keyed.take(pa.array(np.sort(last)))


def joined(archived: DataFrame, loaded: DataFrame) -> DataFrame:
    """Every key that lives on either side, and whether value, timestamp and headers are the same on both."""
    both = latest(archived, "archived").join(latest(loaded, "loaded"), _KEY, "full_outer")
    return both.select(*_KEY, _different().alias("different"))


def counted(keys: DataFrame) -> DataFrame:
    """Keys compared and keys that differ, of each partition."""
    return keys.groupBy(*_LOG).agg(F.count(F.lit(1)).alias("keys_compared"), F.sum(F.col("different").cast("long")).alias("keys_different"))


def differing(keys: DataFrame) -> DataFrame:
    """The first keys that differ, of each partition, as hex."""
    order = Window.partitionBy(*_LOG).orderBy("key")
    first = keys.filter("different").withColumn("rank", F.row_number().over(order)).filter(F.col("rank") <= EXAMPLES)
    return first.groupBy(*_LOG).agg(F.sort_array(F.collect_list(F.lower(F.hex("key")))).alias("examples"))


def _different() -> Column:
    return ~F.col("archived").eqNullSafe(F.col("loaded"))
