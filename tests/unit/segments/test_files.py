"""A segment is read with the memory of one of its row groups, however long it is."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

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
