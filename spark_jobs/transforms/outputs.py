"""Comparing outputs: Spark brings the records of a key together, one task judges it. No record passes through the driver."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it
from pyspark.sql.window import Window

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import counted
from spark_jobs.transforms.keyed_rows import fix_settings
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.state import newest_in
from spark_jobs.transforms.task_runner import in_tasks_sharing, results_of_tasks
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.outputs.comparison import (
    SAMPLE,
    DifferingKey,
    OutputPair,
    OutputRange,
    OutputsResult,
    OutputsSpec,
    PairCompared,
)
from streams_recovery.core.outputs.keys import Judged, KeyCounts, ReadBy, RecordPart, SeenRecord, judge, what_text
from streams_recovery.core.outputs.values import Decode, RecordForm, identity, same_value, split_window
from streams_recovery.core.state.inspection import cut, shown_bytes
from streams_recovery.core.work import OffsetRange
from streams_recovery.serdes.rows import codec_of

# ``weight`` of the rows of a batch together is the number of records that the batch had.
ROWS: Final = "pair int, partition int, nokey boolean, key binary, here boolean, log int, offset long, part byte, value binary, weight long"
ANY: Final = -1
_KEY: Final = ("pair", "partition", "nokey", "key")
_ORDER: Final = 64

Row = tuple[int, int, bool, bytes, bool, int, int, bytes | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeToRead:
    """A range to read: ``here`` of the real output of pair number ``number``."""

    number: int
    here: bool
    span: OutputRange


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledKey:
    """A key that is not equal, and what the first ones are found by."""

    partition: int
    order: str
    found: DifferingKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundInTask:
    """The findings of one task for the keys that it has of a pair."""

    pair: int
    counts: KeyCounts
    sample: tuple[SampledKey, ...]


def compare_outputs(spark: SparkSession, spec: OutputsSpec, access: JobAccess) -> OutputsResult:
    """Read both sides of every pair and compare them key by key. The numbers are exact; of keys that are not equal only the first are returned, and only if
    they may be shown.
    """
    started = time.monotonic()
    return OutputsResult(pairs=compared(read_rows(spark, spec, access), spec), seconds=time.monotonic() - started)


def read_rows(spark: SparkSession, spec: OutputsSpec, access: JobAccess) -> DataFrame:
    """All committed records of both sides that are to be compared; of a table of each batch those that can still count."""
    fix_settings(spark)
    wanted = [
        RangeToRead(number=number, here=here, span=span)
        for number, pair in enumerate(spec.pairs)
        for here, spans in ((True, pair.here), (False, pair.there))
        for span in spans
    ]
    # Without the ranges: this goes to every task.
    pairs = _without_ranges(spec)

    @contextmanager
    def opened(mine: Sequence[RangeToRead]) -> Iterator[Callable[[RangeToRead], Iterator[pa.RecordBatch]]]:
        from streams_recovery.kafka.reader import Consumers, RangeReader  # noqa: PLC0415  # the driver needs no Kafka client

        with Consumers(access.cluster) as consumers:
            consumers.announce(OffsetRange(one.span.tp, one.span.start, one.span.end) for one in mine)

            def read(one: RangeToRead) -> Iterator[pa.RecordBatch]:
                with RangeReader(consumers, one.span.tp, one.span.start, one.span.end) as reader:
                    for batch in counted(iter(reader)):
                        yield from as_rows(batch, one, pairs[one.number])

            yield read

    doing = Doing(name="comparing outputs", records=sum(map(_records, wanted)))
    return in_tasks_sharing(spark, wanted, opened, ROWS, _records, doing)


def _records(wanted: RangeToRead) -> int:
    return wanted.span.end - wanted.span.start


def _without_ranges(spec: OutputsSpec) -> list[OutputPair]:
    return [replace(pair, here=(), there=()) for pair in spec.pairs]


def as_rows(batch: pa.RecordBatch, wanted: RangeToRead, pair: OutputPair) -> Iterator[pa.RecordBatch]:
    """Records of a log as rows to compare."""
    later = None
    if pair.since is not None and pair.until is not None:
        stamps = batch.column("timestamp")
        inside = pc.and_(pc.greater_equal(stamps, pair.since), pc.less(stamps, pair.until))
        if pair.supersedes and wanted.here:
            later = batch.filter(pc.greater_equal(stamps, pair.until))
        batch = batch.filter(inside)
    arrived = pc.greater_equal(batch.column("offset"), wanted.span.settled) if wanted.here else pa.array([False] * len(batch))
    parts = ((RecordPart.SETTLED, batch.filter(pc.invert(arrived))), (RecordPart.ARRIVED, batch.filter(arrived)), (RecordPart.LATER, later))
    for part, rows in parts:
        if rows is None or not len(rows):
            continue
        keyed = rows.filter(pc.is_valid(rows.column("key")))
        # What came while the comparison was prepared is looked at record by record, see ``judge``.
        table = pair.way is ReadBy.LATEST and part is not RecordPart.ARRIVED
        yield from _labelled(newest_in(keyed) if table else keyed, len(keyed), wanted, pair, part, nokey=False)
        if part is not RecordPart.LATER:
            nameless = rows.filter(pc.is_null(rows.column("key")))
            yield from _labelled(_named(nameless, pair.form), len(nameless), wanted, pair, part, nokey=True)


def _named(rows: pa.RecordBatch, form: RecordForm) -> pa.RecordBatch:
    """Records without a key, each with what tells it apart as its key."""
    decode = _decoder(form)
    names = [identity(value, form, decode) for value in rows.column("value").to_pylist()]
    return pa.record_batch({"key": pa.array(names, pa.binary()), **{name: rows.column(name) for name in ("offset", "value")}})


def _labelled(
    rows: pa.RecordBatch, read: int, wanted: RangeToRead, pair: OutputPair, part: RecordPart, *, nokey: bool
) -> Iterator[pa.RecordBatch]:
    if not len(rows):
        return
    count, tp = len(rows), wanted.span.tp
    # Records without a key go to any partition.
    place = tp.partition if pair.by_partition and not nokey else ANY

    def same(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    yield pa.record_batch(
        {
            "pair": same(wanted.number, pa.int32()),
            "partition": same(place, pa.int32()),
            "nokey": same(nokey, pa.bool_()),
            "key": rows.column("key"),
            "here": same(wanted.here, pa.bool_()),
            "log": same(tp.partition, pa.int32()),
            "offset": rows.column("offset"),
            "part": same(int(part), pa.int8()),
            "value": rows.column("value"),
            # A record that is later than the interval is not compared.
            "weight": pa.array([0 if part is RecordPart.LATER else read, *([0] * (count - 1))], pa.int64()),
        }
    )


def compared(rows: DataFrame, spec: OutputsSpec) -> tuple[PairCompared, ...]:
    """The findings for every pair, in the order of the specification."""
    job = replace(spec, pairs=tuple(_without_ranges(spec)))
    tables = [number for number, pair in enumerate(spec.pairs) if pair.way is ReadBy.LATEST]
    # By what makes a key: the window and the sort need no other distribution, so that each row moves once.
    together = rows.repartition(*_KEY)
    number = F.row_number().over(Window.partitionBy(*_KEY, "here").orderBy("log", "offset"))
    position = F.when(F.col("pair").isin(tables) & ~F.col("nokey"), F.lit(0)).otherwise(number)
    ordered = together.withColumn("position", position).sortWithinPartitions(*_KEY, "position", "here", "log", "offset")

    counts: dict[int, KeyCounts] = defaultdict(KeyCounts)
    sample: dict[int, list[SampledKey]] = defaultdict(list)
    for one in results_of_tasks(ordered, lambda batches: judged_keys(batches, job), FoundInTask):
        counts[one.pair] += one.counts
        sample[one.pair] += one.sample
    return tuple(PairCompared(counts=counts[number], differing=_first(sample[number])) for number in range(len(spec.pairs)))


def _first(sample: list[SampledKey]) -> tuple[DifferingKey, ...]:
    return tuple(one.found for one in sorted(sample, key=lambda one: (one.partition, one.order))[:SAMPLE])


def judged_keys(batches: Iterable[pa.RecordBatch], spec: OutputsSpec) -> Iterator[FoundInTask]:
    """Judge the keys of ``batches``, whose rows come key by key, as ``judge`` wants them. Runs in a task; memory is for one batch."""
    counts: dict[int, KeyCounts] = {}
    sample: dict[int, list[SampledKey]] = defaultdict(list)
    weights: dict[tuple[int, bool], int] = defaultdict(int)
    judges = [_judge_of(pair) for pair in spec.pairs]
    for (number, partition, nokey, key), rows in itertools.groupby(_rows(batches, weights), key=lambda row: row[:4]):
        judged = judges[number](nokey, rows)
        counts[number] = counts.get(number, KeyCounts()) + KeyCounts.of(judged)
        if spec.shown and judged.finding.wrong and len(sample[number]) < SAMPLE:
            sample[number].append(
                SampledKey(
                    partition=partition,
                    order=key[:_ORDER].hex(),
                    found=_shown(spec.pairs[number].form, partition, None if nokey else key, judged),
                )
            )
    for number, total in counts.items():
        read = KeyCounts(records_here=weights[number, True], records_there=weights[number, False])
        yield FoundInTask(pair=number, counts=total + read, sample=tuple(sample[number]))


def _judge_of(pair: OutputPair) -> Callable[[bool, Iterable[Row]], Judged]:
    same = partial(same_value, form=pair.form, decode=_decoder(pair.form))

    def judged(nokey: bool, rows: Iterable[Row]) -> Judged:
        seen = (SeenRecord(here, RecordPart(part), position, value) for *_, here, part, position, value, _ in rows)
        # Records without a key are grouped by what they say, so that only their number is compared.
        return judge(ReadBy.RECORDS, seen, lambda _one, _other: True) if nokey else judge(pair.way, seen, same)

    return judged


def _rows(batches: Iterable[pa.RecordBatch], weights: dict[tuple[int, bool], int]) -> Iterator[Row]:
    names = ("pair", "partition", "nokey", "key", "here", "part", "position", "value", "weight")
    for batch in batches:
        for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
            weights[row[0], row[4]] += row[8]
            yield row


def _decoder(form: RecordForm) -> Decode:
    return codec_of(form.value).decode


def _shown(form: RecordForm, partition: int, key: bytes | None, judged: Judged) -> DifferingKey:
    name, window = (b"", "") if key is None else split_window(form.window, key)
    value = codec_of(form.value).decode
    return DifferingKey(
        partition=None if partition == ANY else partition,
        key="null" if key is None else _text(name, codec_of(form.key).decode),
        window=window,
        what=what_text(judged),
        here=_side(judged.here, value),
        there=_side(judged.there, value),
    )


def _side(seen: SeenRecord | None, decode: Decode) -> str:
    if seen is None:
        return ""
    return "null" if seen.value is None else _text(seen.value, decode)


def _text(data: bytes, decode: Decode) -> str:
    try:
        cell = decode(data)
    except ConfigInvalid:
        cell = data
    return cut(shown_bytes(cell) or "" if isinstance(cell, bytes) else str(cell))
