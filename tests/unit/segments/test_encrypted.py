"""Encrypted segments: read with their key, by this software and by others, and by nobody without it."""

from __future__ import annotations

import base64
import io
import os
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption as parquet_encryption

from streams_recovery.core.errors import ConfigInvalid, Damaged, KeyUnavailable
from streams_recovery.core.repository.encryption import DataKey, DataKeys
from streams_recovery.core.repository.segment_file import SegmentFile
from streams_recovery.segments import checked, files
from tests.support.examples.rows import batch_of
from tests.support.repository.readable import code_of

KEY = DataKey(key_id="k00000001aaaaaaaa", secret=os.urandom(32))
NAME = f"orders/segments/t/0/0-9-a.{KEY.key_id}.parquet"
KEYS = DataKeys(keys={("orders", KEY.key_id): KEY})
ROWS = [(at + 1, b"k%d" % at, b"secret %d" % at, [("h", b"x")] if at % 2 else None) for at in range(30_000)]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SegmentFile:
    """A segment of several row groups, each with more rows than Arrow puts into a page by itself."""
    monkeypatch.setattr(files, "ENCRYPTED_GROUP_BYTES", 1_000_000)
    found = files.write_segment((batch_of(ROWS, at * len(ROWS)) for at in range(3)), tmp_path / "file", compression_level=3, key=KEY)
    assert found is not None
    return found.stored_as(NAME)


def test_what_was_written_is_read_with_its_key_and_nothing_of_it_is_in_the_file(written: SegmentFile, tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert b"secret" not in path.read_bytes()
    assert b"timestamp" not in path.read_bytes(), "not even the names of the columns"
    assert pq.ParquetFile(path, decryption_properties=parquet_encryption.create_decryption_properties(KEY.secret)).num_row_groups == 3
    assert files.contents_of(path, written, keys=KEYS) == (written, True)
    rows = [row for batch in files.read_segment(path, written, KEYS) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [row[2] for row in ROWS] * 3
    assert rows[1]["headers"] == [{"key": "h", "value": b"x"}]


def test_duckdb_reads_it_as_the_page_says(written: SegmentFile, tmp_path: Path) -> None:
    session = duckdb.connect()
    session.execute(f"SET VARIABLE files = ['{tmp_path / 'file'}']")
    told = code_of("docs/format.md", "sql", "add_parquet_key").replace("KEY", base64.b64encode(KEY.secret).decode())
    rows = sorted((at, bytes(key), bytes(value)) for at, key, value in session.execute(told).fetchall())
    assert rows == [(at, *ROWS[at % len(ROWS)][1:3]) for at in range(written.rows)]
    with pytest.raises(duckdb.Error, match="encrypted"):
        duckdb.connect().execute(f"SELECT * FROM read_parquet('{tmp_path / 'file'}')")


def test_without_the_key_it_is_not_read_and_the_key_is_named(written: SegmentFile, tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match=f"{KEY.key_id} cannot be unwrapped: this process was given no key"):
        list(files.read_segment(tmp_path / "file", written))
    told = DataKeys(missing={("orders", KEY.key_id): "it is disabled"})
    with pytest.raises(KeyUnavailable, match="it is disabled"):
        list(files.read_segment(tmp_path / "file", written, told))


def test_another_key_is_told_from_the_right_one(written: SegmentFile, tmp_path: Path) -> None:
    other = DataKeys(keys={("orders", KEY.key_id): replace(KEY, secret=os.urandom(32))})
    with pytest.raises(Damaged, match=f"cannot be decrypted with {KEY.key_id}"):
        list(files.read_segment(tmp_path / "file", written, other))


def test_a_file_in_clear_does_not_pass_for_an_encrypted_one_nor_the_other_way_round(written: SegmentFile, tmp_path: Path) -> None:
    clear = files.write_segment([batch_of(ROWS)], tmp_path / "clear", compression_level=3)
    assert clear is not None
    with pytest.raises(Damaged, match="cannot be read"):
        list(files.read_segment(tmp_path / "clear", clear.stored_as(NAME), KEYS))
    with pytest.raises(Damaged, match="cannot be read"):
        list(files.read_segment(tmp_path / "file", written.stored_as("orders/segments/t/0/0-9-a.parquet"), KEYS))


@pytest.mark.parametrize(("start", "stamp", "what"), [(1, 7, "offset"), (0, 8, "timestamp")])
def test_another_file_of_the_same_key_and_size_is_refused_before_its_first_row(tmp_path: Path, start: int, stamp: int, what: str) -> None:
    mine = files.write_segment([batch_of([(7, b"k", b"one", None)] * 10)], tmp_path / "mine", compression_level=3, key=KEY)
    other = files.write_segment([batch_of([(stamp, b"k", b"two", None)] * 10, start)], tmp_path / "other", compression_level=3, key=KEY)
    assert mine is not None
    assert other is not None
    entry = replace(mine, bytes=other.bytes).stored_as(NAME)
    with (tmp_path / "other").open("rb") as handle, pytest.raises(Damaged, match=f"of another range: its {what}s are not from"):
        checked.open_segment(handle, entry, KEYS).__enter__()


@pytest.mark.parametrize("from_end", range(9, 2_000, 97))
def test_a_footer_with_another_byte_is_damage(written: SegmentFile, tmp_path: Path, from_end: int) -> None:
    data = bytearray((tmp_path / "file").read_bytes())
    data[-from_end] ^= 1
    with pytest.raises(Damaged), checked.open_segment(io.BytesIO(data), written, KEYS):
        pass


@pytest.mark.parametrize("at", [5, 40, 500, 5_000, 50_000])
def test_a_page_with_another_byte_is_damage(written: SegmentFile, tmp_path: Path, at: int) -> None:
    data = bytearray((tmp_path / "file").read_bytes())
    data[at] ^= 1
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(Damaged):
        list(files.read_segment(tmp_path / "file", written, KEYS))


def test_an_arrow_that_cannot_encrypt_is_told_by_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(parquet_encryption, "create_encryption_properties")
    with pytest.raises(ConfigInvalid, match=rf"pyarrow {pa.__version__} cannot encrypt"):
        files.write_segment([batch_of(ROWS[:5])], tmp_path / "file", compression_level=3, key=KEY)
    assert files.write_segment([batch_of(ROWS[:5])], tmp_path / "file", compression_level=3) is not None
