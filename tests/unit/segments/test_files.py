"""A segment is read with the memory of one of its row groups, however long it is."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.segment_file import CopiedRange
from streams_recovery.segments import files
from tests.support.examples.rows import batch_of

ROWS, PAYLOAD = 200, 1_000
GROUP = ROWS * PAYLOAD
GROUPS = 40


def test_reading_holds_a_row_group_and_not_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Forty groups of 200 kB in place of 32 MB each: the same file in small.
    monkeypatch.setattr(files, "ROW_GROUP_BYTES", GROUP)
    path, dice = tmp_path / "segment.parquet", random.Random(1)
    batches = (batch_of([(1, None, dice.randbytes(PAYLOAD), None) for _ in range(ROWS)], group * ROWS) for group in range(GROUPS))
    written = files.write_segment(batches, path, compression_level=3)
    assert written is not None
    assert written.rows == ROWS * GROUPS
    before, highest, rows = pa.total_allocated_bytes(), 0, 0
    for batch in files.read_segment(path, written.stored_as("a test")):
        rows += len(batch)
        highest = max(highest, pa.total_allocated_bytes() - before)
    assert rows == ROWS * GROUPS
    assert highest < 8 * GROUP


def test_of_many_segments_at_once_memory_holds_a_piece_of_a_row_group_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIECE_BYTES", GROUP // 10)
    path, dice = tmp_path / "segment.parquet", random.Random(1)
    batches = [batch_of([(1, None, dice.randbytes(PAYLOAD), None) for _ in range(ROWS)], group * ROWS) for group in range(4)]
    written = files.write_segment(batches, path, compression_level=3)
    assert written is not None
    del batches
    before = pa.total_allocated_bytes()
    several = [files.read_segment(path, written.stored_as("a test"), by=files.waiting_in(tmp_path / f"{at}.rows")) for at in range(10)]
    pieces = [[next(one)] for one in several]
    # Each in memory whole would be eight times as much.
    assert pa.total_allocated_bytes() - before < 10 * GROUP
    for one, found in zip(several, pieces, strict=True):
        found.extend(one)
    assert {sum(map(len, found)) for found in pieces} == {4 * ROWS}
    assert all(
        pa.Table.from_batches(found).equals(pa.Table.from_batches(files.read_segment(path, written.stored_as("a test"))))
        for found in pieces
    )


def test_what_was_written_is_what_the_rows_say_once_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "segment.parquet"
    batches = [batch_of([(7, b"k", b"value", None), (3, None, b"v", None)], 5), batch_of([(9, b"k", None, None)], 20)]
    written = files.write_segment(batches, path, compression_level=3)
    assert written is not None
    assert (written.rows, written.first_offset, written.last_offset) == (3, 5, 20)
    assert (written.min_timestamp, written.max_timestamp, written.payload_bytes) == (3, 9, 8)
    stored = written.stored_as("a/key")
    assert (stored.key, stored.bytes, stored.sha256) == ("a/key", path.stat().st_size, files.sha256_of(path))
    assert files.contents_of(path, stored) == (stored, True)


def test_a_file_that_is_not_stored_is_no_part_of_a_savepoint(tmp_path: Path) -> None:
    written = files.write_segment([batch_of([(1, b"k", b"v", None)])], tmp_path / "segment.parquet", compression_level=3)
    assert written is not None
    assert CopiedRange(start=0, end=1, file=written.stored_as("a/key")).file is not None
    with pytest.raises(Damaged, match="is not stored"):
        CopiedRange(start=0, end=1, file=written)
