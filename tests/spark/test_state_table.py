"""A store's table made by Spark is the one that a single process makes, as a view, in a directory and in the repository; and a changelog as state."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms import tables
from spark_jobs.transforms.state import ROWS, compare_states
from spark_jobs.transforms.tables import export_table, state_table
from spark_jobs.transforms.task_runner import TaskFailed
from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.cli.runner import Runner
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import Altered, Damaged
from streams_recovery.core.jobs.spec import KeysVerified
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.state.inspection import StateSpec
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations import state
from streams_recovery.operations.context import open_context
from streams_recovery.serdes.rows import RowCodec, schema_of
from tests.support.repository.state_repository import SECOND, environment, fill

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path):
    fill(tmp_path)
    with open_context(load_named("shop", tmp_path, {}), EnvironmentConnections(environment())) as recovery:
        yield recovery


def spec_of(recovery, store, *, deleted=False, directory=None):
    request = state.ExportRequest(store=store, savepoint=SECOND, run_id=f"r{directory}", deleted=deleted, directory=directory)
    return recovery.artifacts.read(StateSpec, state.begin_export(recovery, request).job.spec)


def access_of(recovery):
    return JobAccess(connection=recovery.connection, location=recovery.repository.location, credentials=None)


def alone(recovery, store, *, deleted=False):
    """What one process makes of it."""
    side = state.open_side(recovery, store, SECOND)
    codec = RowCodec(side.form)
    return sorted(map(repr, (row for one in state.tables(side) for row in codec.rows(one, deleted=deleted))))


def plain(rows):
    """Spark's rows as plain ones; it has byte arrays where others have bytes."""
    found = []
    for row in rows:
        headers = None if row["headers"] is None else [{"key": h["key"], "value": h["value"] and bytes(h["value"])} for h in row["headers"]]
        cells = {name: bytes(cell) if isinstance(cell, bytearray) else cell for name, cell in row.asDict().items()}
        found.append(repr({**cells, "headers": headers}))
    return sorted(found)


@pytest.mark.deep
def test_every_kind_of_store_is_the_same_table(spark, shop):
    # The versions of a key end where a deletion is, whether it is shown or not.
    for store, deleted in (
        ("totals", True),
        ("accounts", False),
        ("raw", False),
        ("sessions", True),
        ("versions", False),
        ("empty", False),
    ):
        made = state_table(spark, spec_of(shop, store, deleted=deleted), access_of(shop))
        assert plain(made.collect()) == alone(shop, store, deleted=deleted), store
        assert made.columns == schema_of(state.open_side(shop, store, SECOND).form).names


@pytest.mark.way("table of state")
def test_spark_sql_asks_it(spark, shop):
    state_table(spark, spec_of(shop, "totals"), access_of(shop)).createOrReplaceTempView("totals")
    found = spark.sql("SELECT key, get_json_object(value, '$.count') AS n FROM totals WHERE key LIKE 'a%'").collect()
    assert [tuple(row) for row in found] == [("alice", "100")]


@pytest.mark.way("table of state")
def test_a_directory_is_written_once(spark, shop, tmp_path):
    directory = (tmp_path / "out").as_uri()
    spec = spec_of(shop, "minutes", directory=directory)
    assert export_table(spark, spec, access_of(shop)).rows == 6
    assert duckdb.sql(f"SELECT sum(value), count(*) FROM '{tmp_path}/out/*.parquet'").fetchall() == [(15, 6)]
    with pytest.raises(Exception, match="already exists"):
        export_table(spark, spec, access_of(shop))


def test_a_second_attempt_takes_the_file_of_the_first_and_nobody_else_s_of_the_same_size(shop, tmp_path):
    spec, access = spec_of(shop, "totals"), access_of(shop)
    part = tables._store_part(iter(()), 0, spec, access)
    assert tables._store_part(iter(()), 0, spec, access) == part
    path = tmp_path / "repository" / part.key
    data = bytearray(path.read_bytes())
    for wrong in (data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], data[:-1]):
        path.write_bytes(wrong)
        with pytest.raises(Altered, match="was not written by this run"):
            tables._store_part(iter(()), 0, spec, access)


@pytest.mark.deep
def test_a_damaged_segment_ends_it(spark, shop, tmp_path):
    path = next((tmp_path / "repository" / "shop" / "segments" / "shop-totals-changelog").rglob("*hour1.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for directory in (None, (tmp_path / "out").as_uri()):
        with pytest.raises(TaskFailed, match="SHA-256") as failed:
            export_table(spark, spec_of(shop, "totals", directory=directory), access_of(shop))
        assert isinstance(failed.value.cause, Damaged)
    assert list(shop.repository.keys("shop/tables/")) == []


@pytest.mark.deep
def test_the_command_writes_it_into_the_repository_by_a_real_submission(shop, tmp_path):
    runner = Runner(recovery=shop, submitter=SparkSubmit(master="local[2]", logs=tmp_path / "logs"), say=lambda line: None)  # noqa: ARG005
    request = state.ExportRequest(store="accounts", savepoint="latest", run_id="r", deleted=False, directory=None)
    savepoint, done = runs.export(runner, replace(request, savepoint=SECOND))
    assert (savepoint, done.rows) == (SECOND, 6)
    files = [str(tmp_path / "repository" / part.key) for part in done.parts]
    found = duckdb.sql(f"SELECT key, (value ->> '$.cents')::BIGINT FROM read_parquet({files}) ORDER BY 2").fetchall()
    assert found == [(name, at) for at, name in enumerate(["alice", "bob", "carol", "dora", "erin", "gül"])]


def row(offset, key, value, *, topic="t", partition=0, timestamp=1, headers=None):
    return (topic, partition, offset, key, value, timestamp, headers)


def compare(spark, archived, loaded, topics=("t",)):
    return compare_states(
        spark.createDataFrame(archived, ROWS), spark.createDataFrame(loaded, ROWS), [TopicPartition(name, 0) for name in topics]
    )


@pytest.mark.deep
def test_the_latest_row_counts_whatever_the_offsets_and_the_order_of_rows(spark):
    archived = [row(90, b"k", b"new"), row(7, b"k", b"old"), row(8, b"other", b"v")]
    loaded = [row(0, b"other", b"v"), row(1, b"k", b"new")]
    assert compare(spark, archived, loaded) == (KeysVerified(tp=TopicPartition("t", 0), keys_compared=2, keys_different=0, examples=()),)


def test_deleted_keys_are_no_state_and_neither_are_rows_without_a_key(spark):
    archived = [row(0, b"gone", b"v"), row(1, b"gone", None), row(2, None, b"v"), row(3, b"live", b"")]
    loaded = [row(0, b"live", b""), row(1, b"never", None)]
    assert compare(spark, archived, loaded)[0] == KeysVerified(tp=TopicPartition("t", 0), keys_compared=1, keys_different=0, examples=())


@pytest.mark.way("comparison")
@pytest.mark.parametrize(
    "loaded",
    [
        [],
        [row(0, b"k", None)],
        [row(0, b"k", b"w")],
        [row(0, b"k", b"v"), row(1, b"k", b"older")],
        [row(0, b"k", b"v", timestamp=2)],
        [row(0, b"k", b"v", partition=1)],
        [row(0, b"k", b"v", headers=[("h", None)])],
    ],
)
def test_any_difference_is_seen_with_its_key(spark, loaded):
    (store,) = compare(spark, [row(5, b"k", b"v")], loaded)
    assert store.keys_different >= 1
    assert set(store.examples) == {"6b"}


@pytest.mark.fault("F29")
def test_headers_differ_by_order_and_by_null_and_empty(spark):
    pairs = [("a", b""), ("b", None)]
    same = compare(spark, [row(0, b"k", b"v", headers=pairs)], [row(0, b"k", b"v", headers=pairs)])
    assert same[0].keys_different == 0
    for other in ([("b", None), ("a", b"")], [("a", None), ("b", None)], None):
        assert compare(spark, [row(0, b"k", b"v", headers=pairs)], [row(0, b"k", b"v", headers=other)])[0].keys_different == 1


def test_zero_keys_are_told_as_zero(spark):
    assert compare(spark, [], [], ("t", "u")) == tuple(
        KeysVerified(tp=TopicPartition(topic, 0), keys_compared=0, keys_different=0, examples=()) for topic in ("t", "u")
    )
    assert compare(spark, [], [], ()) == ()


def test_topics_are_kept_apart_and_examples_are_bounded(spark):
    archived = [row(number, b"%03d" % number, b"v") for number in range(50)] + [row(0, b"k", b"v", topic="u")]
    found = compare(spark, archived, [row(0, b"k", b"v", topic="u")], ("u", "t"))
    assert [(store.tp.topic, store.keys_compared, store.keys_different) for store in found] == [("u", 1, 0), ("t", 50, 50)]
    assert found[1].examples == tuple((b"%03d" % number).hex() for number in range(20))
