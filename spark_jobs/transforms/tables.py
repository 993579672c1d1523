"""A store as a table: its decoded rows as a DataFrame, for a view in Spark SQL or for Parquet. No row passes through the driver."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from spark_jobs.access import JobAccess
from spark_jobs.transforms.keyed_rows import by_log, one_log_at_a_time, rows_of
from spark_jobs.transforms.state import newest
from spark_jobs.transforms.task_runner import marking, results_of_tasks, run_action
from streams_recovery.core.errors import Altered
from streams_recovery.core.kafka_types import StoreKind
from streams_recovery.core.repository.encryption import attempt_with
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.scratch import scratch
from streams_recovery.core.state.inspection import StateResult, StateSpec, TablePart
from streams_recovery.core.state.table import Entry, StoreFormat
from streams_recovery.segments.checked import encrypted_with
from streams_recovery.serdes.rows import RowCodec, schema_of
from streams_recovery.storage.repository import AlreadyExists, Repository

_PIECE: Final = 1 << 20
_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers", "valid_to")


def state_table(spark: SparkSession, spec: StateSpec, access: JobAccess) -> DataFrame:
    """The store's table, with the columns of ``schema_of``. Use it as a view: ``state_table(...).createOrReplaceTempView("totals")``."""
    files = {one.partition: one.files for one in spec.partitions}
    rows = rows_of(spark, files, access).withColumn("topic", F.lit(spec.store)).withColumnRenamed("log", "partition")
    found = _current(rows, spec.form.kind)
    wanted = found if spec.deleted else found.filter(F.col("value").isNotNull())
    form = spec.form
    schema = schema_of(form)
    return wanted.mapInArrow(lambda batches: marking(lambda several: _decoded(several, form, schema), batches), from_arrow_schema(schema))


def _current(rows: DataFrame, kind: StoreKind) -> DataFrame:
    """The newest row of each key, and of each of its versions where a store has those; a version ends where the next one begins."""
    also = ("timestamp",) if kind is StoreKind.VERSIONED else ()
    found = newest(rows, "row", *also).select("partition", "offset", "key", "row.*")
    if kind is not StoreKind.VERSIONED:
        return found.withColumn("valid_to", F.lit(None).cast("long")).select(*_COLUMNS)
    versions = Window.partitionBy("partition", "key").orderBy("timestamp")
    return found.withColumn("valid_to", F.lead("timestamp").over(versions)).select(*_COLUMNS)


def _decoded(batches: Iterator[pa.RecordBatch], form: StoreFormat, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    row_codec = RowCodec(form)
    for batch in batches:
        rows = [row_codec.row(_entry(plain), plain["valid_to"]) for plain in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _entry(plain: dict[str, Any]) -> Entry:
    headers = tuple((header["key"], header["value"]) for header in plain["headers"] or ()) or None
    return Entry(
        partition=plain["partition"],
        offset=plain["offset"],
        timestamp=plain["timestamp"],
        key=plain["key"],
        value=plain["value"],
        headers=headers,
    )


def export_table(spark: SparkSession, spec: StateSpec, access: JobAccess) -> StateResult:
    """Write the table as Parquet, to the directory that is named or into the repository. What is there already is never replaced."""
    started = time.monotonic()
    rows = state_table(spark, spec, access)
    if spec.directory is not None:
        run_action(partial(rows.write.mode("errorifexists").parquet, spec.directory))
        # rows.count() would make the whole table once more, and tell of that one and not of the files.
        written = spark.read.schema(rows.schema).parquet(spec.directory).count()
        return StateResult(rows=written, parts=(), seconds=time.monotonic() - started)
    parts = _stored(rows, spec, access)
    return StateResult(rows=sum(part.rows for part in parts), parts=parts, seconds=time.monotonic() - started)


def _stored(rows: DataFrame, spec: StateSpec, access: JobAccess) -> tuple[TablePart, ...]:
    """One file of each partition that has a row, in the order of keys."""
    order = [name for name in ("key", "window_start", "window_end", "window_seq", "valid_from") if name in rows.columns]
    # Without the files: this goes to every task.
    common = replace(spec, partitions=())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[TablePart]:
        for partition, pieces in itertools.groupby(by_log(batches), key=lambda piece: piece[0]):
            yield _store_part((piece.drop_columns(["log"]) for _, piece in pieces), partition, common, access)

    by_partition = one_log_at_a_time(rows.withColumn("log", F.col("partition")), len(spec.partitions), *order)
    return tuple(sorted(results_of_tasks(by_partition, write, TablePart), key=lambda part: part.key))


def _store_part(pieces: Iterator[pa.RecordBatch], partition: int, spec: StateSpec, access: JobAccess) -> TablePart:
    schema, rows = schema_of(spec.form), 0
    repository = access.repository()
    data_key = repository.data_keys.writing(spec.application_id)
    part = attempt_with(f"{partition:05}", data_key)
    key = Layout(spec.application_id).table(spec.savepoint_id, spec.store, spec.run, part)
    with scratch() as directory:
        path = directory / "part.parquet"
        with pq.ParquetWriter(path, schema, compression="zstd", encryption_properties=encrypted_with(data_key)) as writer:
            for piece in pieces:
                columns = [piece.column(field.name).cast(field.type) for field in schema]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                rows += len(piece)
        try:
            repository.put_file(key, path)
        except AlreadyExists:
            # The same rows in the same order: an earlier attempt of this task wrote the very same file. One that is encrypted has other bytes each time,
            # and who has no key can make none of that size that is read.
            if repository.size(key) != path.stat().st_size or (data_key is None and not _is_same(repository, key, path)):
                raise Altered(
                    f"{key} was there before this task wrote it, with other content: it was not written by this run",
                    next_step="it was not used; find out who can write to this repository, then export the table again",
                    key=key,
                ) from None
    return TablePart(key=key, rows=rows)


def _is_same(repository: Repository, key: str, path: Path) -> bool:
    with contextlib.closing(repository.open(key)) as stored, path.open("rb") as own:
        while (piece := own.read(_PIECE)) and piece == stored.read(len(piece)):
            pass
        return not piece
