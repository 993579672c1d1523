"""Compacted logs against the newest row of each key, found by walking through all rows."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.access import JobAccess
from spark_jobs.transforms.compact import reduce_partitions
from spark_jobs.transforms.task_runner import TaskFailed
from streams_recovery.core.compaction import rewritten
from streams_recovery.core.compaction.latest_per_key import proof_of_state
from streams_recovery.core.compaction.values import CompactSpec, How, RangeToCompact
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import StoreKind, TopicPartition
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.segments.files import read_segment, write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from tests.support.kafka.records import connect

pytestmark = pytest.mark.spark

V3 = [("v", b"\x03")]


KV, LIST, WINDOW, SESSION, SUPPRESS = (StoreKind(kind) for kind in ("key-value", "list", "window", "session", "suppress"))
FILE_ROWS = 9


def store(access, directory, rows, *, kind=KV, partition=0, cuts=(), end=None):
    """Rows of (offset, timestamp, key, value, headers) as the files of one partition, cut at these offsets."""
    tp = TopicPartition(f"app-{kind}-changelog", partition)
    edges = [0, *cuts, end or rows[-1][0] + 1]
    files = []
    for start, stop in pairwise(edges):
        part = [row for row in rows if start <= row[0] < stop]
        path = directory / "part.parquet"
        segment = write_segment([as_batch(part)], path, compression_level=1)
        if segment is not None:
            key = Layout("app").segment(tp, start, stop, "original")
            access.repository().put_file(key, path)
            files.append(segment.stored_as(key))
    return RangeToCompact(tp=TopicPartition(tp.topic, partition), kind=kind, start=0, end=edges[-1], files=tuple(files))


def as_batch(rows):
    offsets, stamps, keys, values, headers = list(zip(*rows, strict=True)) or [[]] * 5
    columns = [pa.array(offsets, pa.int64()), pa.array(stamps, pa.int64()), pa.array([0] * len(offsets), pa.int8())]
    columns += [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), header_array(list(headers))]
    return pa.record_batch(columns, schema=SEGMENT_SCHEMA)


def reduce(spark, access, *partitions):
    spec = CompactSpec(application_id="app", how=How.LATEST_PER_KEY, ranges=partitions, max_records=FILE_ROWS, compression_level=1)
    return reduce_partitions(spark, spec, access).ranges


def judge(planned, done):
    return rewritten.judge(How.LATEST_PER_KEY, planned, done)


def rows_of(access, done):
    """What is in the new files, in their order."""
    root = Path(access.location.path)
    files = [copied.file for copied in done.ranges if copied.file]
    rows = [row for file in files for batch in read_segment(root / file.key, file) for row in batch.to_pylist()]
    headers = (row["headers"] and [(each["key"], each["value"]) for each in row["headers"]] for row in rows)
    return [(row["offset"], row["timestamp"], row["key"], row["value"], each) for row, each in zip(rows, headers, strict=True)]


def by_hand(rows, kind):
    """Walk through the log as a store that is restored from it does."""
    state = {}
    for row in rows:
        if row[2] is not None:
            state[row[2]] = row
    windowed = kind in (StoreKind.WINDOW, StoreKind.SESSION)
    kept = {row[0]: row for row in state.values() if windowed or row[3] is not None}
    if windowed and rows:
        newest = max(rows, key=lambda row: (row[1], row[0]))
        kept[newest[0]] = newest
    return [kept[offset] for offset in sorted(kept)], state


def generated(dice, count):
    """Rows of every shape with holes between the offsets; times are not in the order of offsets."""
    offset, rows = 0, []
    for _ in range(count):
        offset += dice.choice([1, 1, 1, 2, 5])
        key = dice.choice([None, b"", *(b"k%d" % number for number in range(12)), b"\xff" * 40])
        value = dice.choice([None, None, b"", b"v%d" % offset, bytes(dice.randrange(200))])
        headers = dice.choice([None, [("h", None)], [("h", b""), ("h", b"x")]])
        rows.append((offset, dice.randrange(1, 60), key, value, headers))
    return rows


def random_logs():
    dice = random.Random(20261121)
    for kind in (KV, LIST, WINDOW, SESSION):
        for number in range(1):
            cuts = sorted(dice.sample(range(1, 400), 4))
            yield f"random {kind} {number}", {"kind": kind, "rows": generated(dice, dice.randrange(1, 200)), "cuts": cuts, "end": 1_200}


WINDOWS = [(0, 50, b"w1", b"a", None), (1, 90, b"w2", b"a", None), (2, 60, b"w2", b"b", None), (3, 55, b"w1", None, None)]
BUFFER = [(0, 1, b"a", b"1", V3), (1, 2, b"a", None, None), (2, 3, b"b", b"2", [("x", b"y"), *V3])]
OLD_BUFFER = [*BUFFER, (3, 4, b"c", b"3", [("v", b"\x02")]), (4, 5, b"c", b"3", None), (5, 6, b"c", b"4", V3)]
# Four rows of 6 MB a file: more than one batch may hold, each less.
BIG = [(offset, 1, b"k%d" % (offset % 4), bytes([offset]) * 6_000_000, None) for offset in range(8)]
LOGS = {
    **dict(random_logs()),
    "empty values": {
        "rows": [
            (0, 5, b"", b"old", None),
            (1, 5, b"deleted", b"v", None),
            (2, 5, b"", b"", V3),
            (3, 5, b"deleted", None, None),
            (4, 5, None, b"x", None),
        ]
    },
    "windows": {"rows": WINDOWS, "kind": WINDOW},
    "the same in a list": {"rows": WINDOWS, "kind": LIST},
    "all deleted": {"rows": [(offset, 1, b"k%d" % (offset % 3), None if offset > 5 else b"v", None) for offset in range(9)]},
    "buffer": {"rows": BUFFER, "kind": SUPPRESS},
    "old buffer": {"rows": OLD_BUFFER, "kind": SUPPRESS},
    "no buffer": {"rows": OLD_BUFFER},
    "big": {"rows": BIG, "cuts": (4,)},
    "lost": {"rows": [(offset, 1, b"k%d" % offset, b"v", None) for offset in range(6)], "cuts": (3,)},
}


@pytest.fixture(scope="module")
def access(tmp_path_factory):
    """No broker is ever asked."""
    location = StorageLocation(backend="filesystem", path=str(tmp_path_factory.mktemp("repository")))
    return JobAccess(connection=connect("127.0.0.1:1"), location=location, credentials=None)


@pytest.fixture(scope="module")
def compacted(spark, access, tmp_path_factory):
    """What was planned and what was done for each of ``LOGS``, all in one job. Of one of them the job is not given all files."""
    directory = tmp_path_factory.mktemp("parts")
    planned = {name: store(access, directory, partition=number, **log) for number, (name, log) in enumerate(LOGS.items())}
    given = {name: replace(wanted, files=wanted.files[:1]) if name == "lost" else wanted for name, wanted in planned.items()}
    done = reduce(spark, access, *given.values())
    return {name: (wanted, one) for (name, wanted), one in zip(planned.items(), done, strict=True)}


@pytest.mark.parametrize("name", [name for name in LOGS if name != "lost"])
def test_a_compacted_log_is_the_newest_row_of_each_key(access, compacted, name):
    wanted, one = compacted[name]
    rows = LOGS[name]["rows"]
    expected, keys = by_hand(rows, wanted.kind)
    assert rows_of(access, one) == expected
    assert (one.rows_before, one.rows_after, one.keys) == (len(rows), len(expected), len(keys))
    assert proof_of_state(one).holds
    assert one.problems == ()
    assert (one.ranges[0].start, one.ranges[-1].end) == (0, wanted.end)
    assert {copied.compacted for copied in one.ranges} == {Compaction.LATEST_PER_KEY}
    files = [copied.file for copied in one.ranges if copied.file]
    assert [file.rows for file in files[:-1]] == [FILE_ROWS] * (len(files) - 1)
    assert {file.min_timestamp for file in files} == {min(row[1] for row in part) for part in batched(expected, FILE_ROWS)}


def batched(rows, size):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def test_all_of_them_may_replace_their_originals_but_what_such_a_store_does_not_write(compacted):
    pairs = [pair for name, pair in compacted.items() if name != "lost"]
    verdict = judge([wanted for wanted, _ in pairs], [one for _, one in pairs])
    assert list(verdict.stays) == ["app-suppress-changelog"]
    assert {one.wanted.tp.topic for one in verdict.accepted} == {f"app-{kind}-changelog" for kind in (KV, LIST, WINDOW, SESSION)}


@pytest.mark.fault("F28")
def test_null_and_empty_stay_two_things(access, compacted):
    _, one = compacted["empty values"]
    assert rows_of(access, one) == [(2, 5, b"", b"", V3)]
    assert (one.keys, one.state_before, one.state_after) == (2, 1, 1)
    assert [(copied.start, copied.end, copied.file is None) for copied in one.ranges] == [(0, 3, False), (3, 5, True)]


@pytest.mark.fault("F27")
def test_deleted_windows_stay_and_so_does_the_newest_time(access, compacted):
    assert rows_of(access, compacted["windows"][1]) == WINDOWS[1:], "the newest time is before w2's newest row, which a restore lets win"
    assert rows_of(access, compacted["the same in a list"][1]) == [WINDOWS[2]]


def test_a_log_of_nothing_but_deleted_keys_is_an_empty_one_that_was_compared(compacted):
    wanted, one = compacted["all deleted"]
    assert [(copied.start, copied.end, copied.file) for copied in one.ranges] == [(0, 9, None)]
    assert (one.keys, one.state_before, one.state_after) == (3, 0, 0)
    assert [accepted.ranges for accepted in judge([wanted], [one]).accepted] == [one.ranges]


def test_rows_of_an_older_suppress_buffer_are_counted_as_foreign(compacted):
    assert {name: one.foreign for name, (_, one) in compacted.items() if one.foreign} == {"old buffer": 2}


def test_rows_that_the_job_did_not_see_show_in_the_count(compacted):
    wanted, one = compacted["lost"]
    with pytest.raises(Damaged, match="3 rows were read, not 6"):
        judge([wanted], [one])


def test_a_damaged_file_of_the_original_ends_the_job_by_name(spark, access, tmp_path):
    planned = store(access, tmp_path, [(0, 1, b"k", b"v", None)], partition=99)
    path = Path(access.location.path) / planned.files[0].key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(TaskFailed) as caught:
        reduce(spark, access, planned)
    assert isinstance(caught.value.cause, Damaged)
    assert planned.files[0].key in caught.value.cause.reason
