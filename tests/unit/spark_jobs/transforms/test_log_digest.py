"""The digest of what logs hold: the same however rows are cut into batches and logs, and another one for each single difference."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.transforms import log_digest
from spark_jobs.transforms.log_digest import NOTHING, LogDigest, LogHeld, hashes
from streams_recovery.kafka.native.library import SWITCH
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array

BYTES = [None, b"", b"\0", b"\0" * 8, b"\0" * 9, b"a" * 7, b"a" * 8, b"a" * 33, b"b" * 127, b"b" * 1024, b"b" * 1025, b"c" * 5_000]


@pytest.fixture(autouse=True, params=["compiled", "plain"])
def way(request, monkeypatch):
    monkeypatch.setenv(SWITCH, "on" if request.param == "compiled" else "off")


def batch_of(rows):
    columns = list(zip(*rows, strict=True))
    return pa.record_batch(
        [
            pa.array(range(len(rows)), pa.int64()),
            pa.array(columns[0], pa.int64()),
            pa.array([0] * len(rows), pa.int8()),
            pa.array(columns[1], pa.binary()),
            pa.array(columns[2], pa.binary()),
            header_array(list(columns[3])),
        ],
        schema=SEGMENT_SCHEMA,
    )


def rows_of(count=400, seed=1):
    dice = random.Random(seed)
    found = []
    for number in range(count):
        headers = [("h", b"%d" % number), ("h", None)][: dice.randrange(3)] or None
        value = None if dice.random() < 0.1 else dice.randbytes(dice.randrange(60))
        found.append((number, b"key-%d" % dice.randrange(80) if number % 9 else None, value, headers))
    return found


def held(tmp_path, rows, *, cut=97, **kind):
    digest = LogDigest(tmp_path, len(rows), **kind)
    for at in range(0, len(rows), cut):
        batch = batch_of(rows[at : at + cut])
        digest.add(batch, batch.column("value"))
    return digest.held()


def newest(rows):
    return {row[1]: row for row in rows if row[1] is not None}


def test_each_row_of_bytes_has_a_hash_of_its_own_wherever_it_stands():
    whole = hashes(pa.array(BYTES, pa.binary()))
    assert len(np.unique(whole, axis=0)) == len(np.unique(whole[:, 0])) == len(np.unique(whole[:, 1])) == len(BYTES)
    for at in range(len(BYTES)):
        assert (hashes(pa.array(BYTES, pa.binary()).slice(at, 1)) == whole[at]).all()
        assert (hashes(pa.array([BYTES[at]], pa.binary())) == whole[at]).all()


def test_compiled_code_and_numpy_have_the_same_digest(tmp_path, monkeypatch):
    rows, column = rows_of(), pa.array([*BYTES, *(bytes(range(length)) for length in range(200))], pa.binary())
    found = []
    for switch in ("on", "off"):
        monkeypatch.setenv(SWITCH, switch)
        found.append((hashes(column).tolist(), held(tmp_path, rows), held(tmp_path, rows, versions=True, ordered=True)))
    assert found[0] == found[1]


def test_each_bit_changes_both_numbers():
    for length in (3, 8, 21, 150, 1_024, 1_030):
        data = bytearray(random.Random(length).randbytes(length))
        changed = [bytes(data)]
        for bit in range(8 * length):
            data[bit // 8] ^= 1 << bit % 8
            changed.append(bytes(data))
            data[bit // 8] ^= 1 << bit % 8
        found = hashes(pa.array(changed, pa.binary()))
        assert len(np.unique(found[:, 0])) == len(np.unique(found[:, 1])) == len(changed)


def test_it_counts_keys_and_rows_however_they_are_cut(tmp_path):
    rows = rows_of()
    found = held(tmp_path, rows)
    assert (found.keys, found.rows) == (len(newest(rows)), len(rows))
    assert [held(tmp_path, rows, cut=cut) for cut in (1, 50, 400)] == [found] * 3


def test_logs_without_a_common_key_add_up(tmp_path):
    rows = rows_of()
    logs = [[row for row in rows if hash(row[1]) % 3 == number] for number in range(3)]
    total = NOTHING
    for log in logs:
        total += held(tmp_path, log)
    assert total == held(tmp_path, rows)


@pytest.mark.parametrize("change", ["timestamp", "key", "value", "headers", "order", "one less", "twice"])
def test_a_single_difference_is_seen(tmp_path, change):
    rows = rows_of()
    at = next(number for number in range(200, 400) if rows[number][1] and rows[number][2] and rows[number][3])
    row = rows[at]
    changed = {
        "timestamp": [(row[0] + 1, *row[1:])],
        "key": [(row[0], row[1] + b"x", *row[2:])],
        "value": [(*row[:2], row[2] + b"\0", row[3])],
        "headers": [(*row[:3], [*row[3][:-1], ("h", b"")])],
        "order": [],
        "one less": [],
        "twice": [row, row],
    }[change]
    other = rows[:at] + changed + rows[at + 1 :]
    if change == "order":
        # To the front: an older value of its key is the newest one now.
        other = [newest(rows)[row[1]], *(one for one in rows if one is not newest(rows)[row[1]])]
        assert sorted(map(repr, other)) == sorted(map(repr, rows))
    assert held(tmp_path, other) != held(tmp_path, rows)


@pytest.mark.parametrize("column", range(4))
def test_what_two_rows_have_exchanged_is_seen(tmp_path, column):
    one, other = (1, b"a", b"x", [("h", b"1")]), (2, b"b", b"y", [("h", b"2")])
    for there in (other, (*other[:column], None if column else 3, *other[column + 1 :])):
        exchanged = [(*row[:column], of[column], *row[column + 1 :]) for row, of in ((one, there), (there, one))]
        assert held(tmp_path, exchanged) != held(tmp_path, [one, there])


def test_of_a_store_with_versions_each_moment_is_a_key(tmp_path):
    rows = [(1, b"k", b"a", None), (2, b"k", b"b", None), (2, b"k", b"c", None)]
    assert held(tmp_path, rows, versions=True).keys == 2
    assert held(tmp_path, [rows[0], rows[2], rows[1]], versions=True) != held(tmp_path, rows, versions=True)
    assert held(tmp_path, [rows[1], rows[0], rows[2]], versions=True) == held(tmp_path, rows, versions=True)


def test_the_order_of_older_records_counts_where_all_are_read_again(tmp_path, monkeypatch):
    rows = [(number, b"key-%d" % (number % 3), b"%d" % number, None) for number in range(30)]
    exchanged = [*rows[:6], rows[9], *rows[7:9], rows[6], *rows[10:]]
    assert held(tmp_path, exchanged) == held(tmp_path, rows)
    assert held(tmp_path, exchanged, ordered=True) != held(tmp_path, rows, ordered=True)
    # Records of other keys may stand anywhere between.
    by_key = sorted(rows, key=lambda row: row[1])
    assert held(tmp_path, by_key, ordered=True) == held(tmp_path, rows, ordered=True)
    # Wherever the pieces end that go into files together.
    monkeypatch.setattr(log_digest, "_IN_MEMORY", 10)
    for size in range(1, 8):
        monkeypatch.setattr(log_digest, "_AT_ONCE", size)
        monkeypatch.setattr(log_digest, "_PIECES", 2)
        found = []
        for number, log in enumerate((rows, by_key, exchanged)):
            (tmp_path / f"{size}-{number}").mkdir()
            found.append(held(tmp_path / f"{size}-{number}", log, ordered=True))
        assert found[0] == found[1] == held_at_once(tmp_path, rows, monkeypatch)
        assert found[2] != found[0]


def held_at_once(tmp_path, rows, monkeypatch):
    with monkeypatch.context() as plain:
        plain.setattr(log_digest, "_IN_MEMORY", 1_000)
        return held(tmp_path, rows, ordered=True)


@pytest.mark.parametrize("ordered", [False, True])
def test_more_keys_than_memory_holds_wait_in_files(tmp_path, monkeypatch, ordered):
    rows = rows_of(3_000)
    whole = held(tmp_path, rows, ordered=ordered)
    monkeypatch.setattr(log_digest, "_IN_MEMORY", 500)
    digest = LogDigest(tmp_path, len(rows), ordered=ordered)
    assert len(digest._files) == 6
    batch = batch_of(rows)
    digest.add(batch, batch.column("value"))
    assert (digest.held(), digest._waiting) == (whole, [])


def test_of_a_key_that_comes_again_and_again_the_files_have_few_rows(tmp_path, monkeypatch):
    rows = [(number, b"key-%d" % (number % 5), b"%d" % number, None) for number in range(3_000)]
    whole = held(tmp_path, rows)
    monkeypatch.setattr(log_digest, "_IN_MEMORY", 500)
    monkeypatch.setattr(log_digest, "_AT_ONCE", 100)
    monkeypatch.setattr(log_digest, "_PIECES", 3)
    digest = LogDigest(tmp_path, len(rows))
    digest.add(batch_of(rows), batch_of(rows).column("value"))
    assert digest.held() == whole
    # Five of each 300 rows, of 32 bytes.
    assert sum(file.stat().st_size for file in digest._files if file.exists()) == 10 * 5 * 32


def test_keys_that_are_alike_in_their_higher_bits_are_told_apart():
    one = np.array([1 << 60, (1 << 60) + 1, 1 << 60, 1 << 60, (1 << 60) + 1], np.uint64)
    other = np.array([7, 7, 8, 7, 7], np.uint64)
    order, ends = log_digest._by_key(one, other)
    assert (sorted(order[ends]), sorted(order)) == ([2, 3, 4], [0, 1, 2, 3, 4])
    assert [len(found) for found in log_digest._by_key(one[:0], other[:0])] == [0, 0]


def test_the_digest_is_of_all_that_is_held():
    some = LogHeld(keys=1, rows=2, sums=(1, 2, 3, 4, 5, 6))
    others = [
        replace(some, keys=2),
        replace(some, rows=3),
        *(replace(some, sums=sums) for sums in ((0, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 7))),
    ]
    assert len({one.digest for one in [some, *others]}) == 5
