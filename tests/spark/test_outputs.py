"""Outputs compared by real Spark: records of two topics of a real broker, and rows that never saw one."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from spark_jobs.transforms import outputs
from spark_jobs.transforms.keyed_rows import fix_settings
from spark_jobs.transforms.outputs import ROWS, compare_outputs, compared, judged_keys
from spark_jobs.transforms.task_runner import results_of_tasks
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import SAMPLE, OutputPair, OutputRange, OutputsSpec
from streams_recovery.core.outputs.keys import KeyCounts, ReadBy
from streams_recovery.core.outputs.values import RecordForm, Tolerance, Windowed
from streams_recovery.core.state.table import Format, ValueFormat
from tests.support.kafka.records import end_of

STRING, JSON = ValueFormat(format=Format.STRING), ValueFormat(format=Format.JSON)
HOUR = 3_600_000
WINDOW = 1_764_158_400_000
# Of a shuffle.
PIECES = 7


def put(connection, topic, *records):
    """Records as (key, value), (key, value, partition) or (key, value, partition, timestamp)."""
    producer = Producer(connection.client_config())
    for key, value, *where in records:
        partition, *stamp = where or (0,)
        producer.produce(topic, value, key, partition, timestamp=stamp[0] if stamp else WINDOW)
    assert producer.flush(30) == 0


class Both:
    """Two topics and how they are compared."""

    def __init__(self, spark, access, connection, topics, partitions=(1, 1)):
        self._spark, self._access, self.connection = spark, access, connection
        self.real, self.other = (topics(partitions=count) for count in partitions)
        self._partitions = partitions

    def ranges(self, topic, partitions, settled=None):
        found = []
        for number in range(partitions):
            tp = TopicPartition(topic, number)
            end = end_of(self.connection, tp)
            found.append(OutputRange(tp=tp, start=0, settled=end if settled is None else settled, end=end))
        return tuple(found)

    def compare(self, way, form=RecordForm(), *, shown=True, settled=None, **more):  # noqa: B008
        pair = OutputPair(
            output=self.real,
            other=self.other,
            way=way,
            form=form,
            here=self.ranges(self.real, self._partitions[0], settled),
            there=self.ranges(self.other, self._partitions[1]),
            by_partition=self._partitions[0] == self._partitions[1],
            **more,
        )
        spec = OutputsSpec(application_id="app", pairs=(pair,), shown=shown)
        (found,) = compare_outputs(self._spark, spec, self._access).pairs
        return found


@pytest.fixture
def both(spark, access, connection, topics):
    return Both(spark, access, connection, topics)


def told(found):
    return [(one.key, one.what, one.here, one.there) for one in found.differing]


@pytest.mark.way("comparison of outputs")
@pytest.mark.kafka
@pytest.mark.spark
def test_each_kind_of_difference_is_found_with_its_key_and_its_window(both):
    def windowed(key, start=WINDOW):
        return key + struct.pack(">q", start)

    same = [(windowed(b"same"), b"1"), (windowed(b"same", WINDOW + HOUR), b"2"), (windowed(b"same"), b"3")]
    put(both.connection, both.real, *same, (windowed(b"here"), b"1"), (windowed(b"changed"), b"1"), (windowed(b"changed"), b"2"))
    put(both.connection, both.real, (windowed(b"more"), b"1"), (windowed(b"more"), b"2"), (windowed(b"more"), None))
    put(both.connection, both.other, (windowed(b"more"), b"1"), (windowed(b"changed"), b"1"), (windowed(b"changed"), b"9"))
    put(both.connection, both.other, *same, (windowed(b"there"), None))
    form = RecordForm(key=STRING, value=STRING, window=Windowed.TIME)
    found = both.compare(ReadBy.RECORDS, form)
    assert told(found) == [
        ("changed", "different in record 2 of the key", "2", "9"),
        ("here", "only in the real output", "1", ""),
        ("more", "the other output is behind by 2 records", "1", "1"),
        ("there", "only in the other output", "", "null"),
    ]
    assert {one.window for one in found.differing} == {"2025-11-26 12:00:00 UTC"}
    assert {one.partition for one in found.differing} == {0}
    expected = KeyCounts(equal=2, different=1, behind=1, only_here=1, only_there=1, missing=2, records_here=9, records_there=7)
    assert found.counts == expected

    latest = both.compare(ReadBy.LATEST, form)
    assert [(one.key, one.what) for one in latest.differing] == [
        ("changed", "different"),
        ("here", "only in the real output"),
        ("more", "different"),
        ("there", "only in the other output"),
    ]
    assert latest.counts == KeyCounts(equal=2, different=2, only_here=1, only_there=1, records_here=9, records_there=7)

    closed = both.compare(ReadBy.RECORDS, form, shown=False)
    assert (closed.counts, closed.differing) == (expected, ())


@pytest.mark.deep
@pytest.mark.kafka
@pytest.mark.spark
def test_equal_outputs_are_equal_in_whatever_order_keys_come_and_empty_ones_compare_nothing(both):
    for way in ReadBy:
        assert both.compare(way).counts == KeyCounts()
    one = [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"a", None)]
    put(both.connection, both.real, *one)
    put(both.connection, both.other, one[2], one[0], one[1], one[3])
    for way in ReadBy:
        found = both.compare(way)
        assert (found.counts, found.differing) == (KeyCounts(equal=2, records_here=4, records_there=4), ())


@pytest.mark.way("comparison of outputs")
@pytest.mark.kafka
@pytest.mark.spark
def test_records_without_a_key_are_compared_by_their_number(both):
    put(both.connection, both.real, *[(None, b"a")] * 3, (None, b"b"), (None, b"c"), (None, None))
    put(both.connection, both.other, (None, b"b"), *[(None, b"a")] * 2, (None, None), (None, b"d"))
    for way in ReadBy:
        found = both.compare(way, RecordForm(value=STRING))
        assert found.counts == KeyCounts(equal=2, behind=1, only_here=1, only_there=1, missing=1, records_here=6, records_there=5)
        assert Counter(one[1] for one in told(found)) == Counter(
            ["the other output is behind by 1 record", "only in the real output", "only in the other output"]
        )
        assert {(one.key, one.partition) for one in found.differing} == {("null", None)}


@pytest.mark.deep
@pytest.mark.kafka
@pytest.mark.spark
def test_numbers_within_a_tolerance_and_fields_to_ignore(both):
    def total(amount, at):
        return json.dumps({"total": amount, "at": at}).encode()

    put(both.connection, both.real, (b"a", total(10.0, 1)), (b"b", total(5.0, 1)), (None, total(1.0, 1)))
    put(both.connection, both.other, (b"a", total(10.0004, 2)), (b"b", total(5.01, 2)), (None, total(1, 2)))
    form = RecordForm(key=STRING, value=JSON, ignore=("at",), tolerance=Tolerance(absolute=0.001))
    for way in ReadBy:
        found = both.compare(way, form)
        assert (found.counts.equal, [one[0] for one in told(found)]) == (2, ["b"])
        assert both.compare(way, RecordForm(value=JSON, ignore=("at",))).counts.equal == 1
        assert both.compare(way).counts.equal == 0


@pytest.mark.deep
@pytest.mark.kafka
@pytest.mark.spark
def test_results_that_came_meanwhile_are_in_flux_and_no_difference(both):
    put(both.connection, both.real, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"))
    put(both.connection, both.other, (b"a", b"1"), (b"b", b"1"))
    records = both.compare(ReadBy.RECORDS, settled=2)
    assert records.counts == KeyCounts(equal=2, in_flux=1, records_here=4, records_there=2)
    assert both.compare(ReadBy.LATEST, settled=2).counts == records.counts
    # The same records without new input: they had to be there.
    assert both.compare(ReadBy.RECORDS).counts.wrong == 2
    put(both.connection, both.other, (b"c", b"9"))
    assert both.compare(ReadBy.RECORDS, settled=2).counts.different == 1
    assert both.compare(ReadBy.LATEST, settled=2).counts == KeyCounts(equal=2, in_flux=1, records_here=4, records_there=3)


@pytest.mark.kafka
@pytest.mark.spark
def test_of_an_interval_only_its_own_results_count_and_later_ones_of_a_table_say_so(both):
    inside, before, after = WINDOW, WINDOW - 1, WINDOW + HOUR
    put(both.connection, both.real, (b"a", b"0", 0, before), (b"a", b"1", 0, inside), (b"b", b"1", 0, inside), (b"b", b"2", 0, after))
    put(both.connection, both.other, (b"a", b"1", 0, inside), (b"b", b"9", 0, inside), (b"a", b"7", 0, after))
    window = {"since": WINDOW, "until": WINDOW + HOUR}
    assert both.compare(ReadBy.RECORDS, **window).counts == KeyCounts(equal=1, different=1, records_here=2, records_there=2)
    assert both.compare(ReadBy.LATEST, **window, supersedes=True).counts == KeyCounts(
        equal=1, superseded=1, records_here=2, records_there=2
    )


@pytest.mark.deep
@pytest.mark.kafka
@pytest.mark.spark
def test_a_key_in_another_partition_is_another_place_unless_the_numbers_of_partitions_differ(spark, access, connection, topics):
    alike = Both(spark, access, connection, topics, partitions=(2, 2))
    put(connection, alike.real, (b"a", b"1", 0), (b"b", b"1", 1))
    put(connection, alike.other, (b"a", b"1", 1), (b"b", b"1", 1))
    found = alike.compare(ReadBy.RECORDS)
    assert found.counts == KeyCounts(equal=1, only_here=1, only_there=1, records_here=2, records_there=2)
    assert [one.partition for one in found.differing] == [0, 1]
    fewer = Both(spark, access, connection, topics, partitions=(2, 1))
    put(connection, fewer.real, (b"a", b"1", 0), (b"a", b"2", 0), (b"b", b"1", 1))
    put(connection, fewer.other, (b"b", b"1", 0), (b"a", b"1", 0), (b"a", b"2", 0))
    assert fewer.compare(ReadBy.RECORDS).counts == KeyCounts(equal=2, records_here=3, records_there=3)


def spec_of(*pairs):
    return OutputsSpec(application_id="app", pairs=pairs, shown=True)


def pair(way=ReadBy.RECORDS, form=RecordForm()):  # noqa: B008
    return OutputPair(output="real", other="own", way=way, form=form, here=(), there=(), by_partition=True)


def row(number, key, offset, value, *, here, part=0):
    return (number, 0, False, key, here, 0, offset, part, value, 1)


@pytest.mark.spark
def test_pairs_are_kept_apart_and_the_sample_is_the_first_keys_of_each(spark):
    keys = [b"%03d" % number for number in range(60)]
    rows = [row(0, key, at, b"v", here=True) for at, key in enumerate(keys)] + [row(1, b"k", 0, b"v", here=here) for here in (True, False)]
    first, second = compared(spark.createDataFrame(rows, ROWS).repartition(5), spec_of(pair(form=RecordForm(key=STRING)), pair()))
    assert first.counts == KeyCounts(only_here=60, records_here=60)
    assert [one.key for one in first.differing] == [key.decode() for key in keys[:SAMPLE]]
    assert (second.counts, second.differing) == (KeyCounts(equal=1, records_here=1, records_there=1), ())


@pytest.fixture
def spread(spark):
    """Spark as it is with many records: a shuffle stays in as many pieces as it was cut into, and each is a task of its own."""
    changed = {"spark.sql.shuffle.partitions": str(PIECES), "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {name: spark.conf.get(name) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("name", ["requireAllClusterKeysForDistribution", "ansi.enforceReservedKeywords"])
def test_what_a_user_has_set_for_other_jobs_changes_no_comparison(spread, name, both):
    keys = [b"%03d" % number for number in range(40)]
    for topic in (both.real, both.other):
        put(both.connection, topic, *((key, b"v") for key in keys))
    spread.conf.set(f"spark.sql.{name}", "true")
    found = both.compare(ReadBy.RECORDS)
    assert found.counts == KeyCounts(equal=40, records_here=40, records_there=40)


@pytest.mark.spark
def test_a_file_that_cannot_be_read_is_never_left_out(spark, tmp_path):
    spark.createDataFrame([(1,)], "one int").write.parquet(str(tmp_path / "table"))
    (tmp_path / "table" / "broken.parquet").write_bytes(b"PAR1 and no more")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    fix_settings(spark)
    with pytest.raises(Exception, match=r"broken\.parquet"):
        spark.read.schema("one int").parquet(str(tmp_path / "table")).count()


@pytest.mark.spark
@pytest.mark.parametrize("way", ReadBy)
def test_all_records_of_a_key_come_to_one_task_wherever_they_are_read_and_keys_to_many(spread, way, monkeypatch):
    tasks = []
    monkeypatch.setattr(outputs, "results_of_tasks", lambda *of: tasks.extend(results_of_tasks(*of)) or tasks)
    keys, each = [b"%03d" % number for number in range(40)], 3
    rows = [
        (number, place, nokey, key, here, place, at, 0, b"v%d" % at, 1)
        for number, place, nokey in ((0, 0, False), (0, 1, False), (0, -1, True), (1, 0, False))
        for key in keys
        for here in (True, False)
        for at in range(each)
    ]
    # Each record of a key is read by another task.
    read = spread.createDataFrame(rows, ROWS).repartition(5)
    first, second = compared(read, spec_of(pair(way), pair(way)))
    assert first.counts == KeyCounts(equal=120, records_here=120 * each, records_there=120 * each)
    assert second.counts == KeyCounts(equal=40, records_here=40 * each, records_there=40 * each)
    assert (first.differing, second.differing) == ((), ())
    assert len(tasks) == 2 * PIECES, "every task has keys of both pairs"


@pytest.mark.parametrize("shown", [True, False])
def test_a_task_says_keys_and_values_only_where_they_may_be_shown(shown):
    columns = ("pair", "partition", "nokey", "key", "here", "part", "position", "value", "weight")
    (one,) = judged_keys(
        [pa.record_batch([[cell] for cell in (0, 0, False, b"a key", True, 0, 1, b"a value", 1)], names=columns)],
        replace(spec_of(pair(form=RecordForm(key=STRING, value=STRING))), shown=shown),
    )
    assert (one.counts.only_here, len(one.sample)) == (1, int(shown))
    assert ("a key" in repr(one), "a value" in repr(one), b"a key".hex() in repr(one)) == (shown, shown, shown)


def test_one_key_of_very_many_records_needs_little_memory():
    """What a task gets comes batch by batch, and is looked at once."""
    count, value = 20_000, b"v" * 1_000

    def batches():
        for at in range(1, count + 1, 100):
            positions = [position for position in range(at, at + 100) for _ in range(2)]
            size = len(positions)
            yield pa.record_batch(
                {
                    "pair": [0] * size,
                    "partition": [0] * size,
                    "nokey": [False] * size,
                    "key": [b"k"] * size,
                    "here": [False, True] * (size // 2),
                    "part": [0] * size,
                    "position": positions,
                    "value": [value] * size,
                    "weight": [1] * size,
                }
            )

    tracemalloc.start()
    (found,) = judged_keys(batches(), spec_of(pair()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.counts == KeyCounts(equal=1, records_here=count, records_there=count)
    assert peak < 5_000_000, f"{peak} bytes for {2 * count * len(value)} of values"
