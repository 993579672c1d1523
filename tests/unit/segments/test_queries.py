"""Looking into files, and taking the rows that were counted: both see the same rows, and those that the plain definition means."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.segment_reader import taken
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.restore.interval import BESIDE, Interval, IntervalLook, IntervalSlice, bounds_of, slice_log
from streams_recovery.segments.files import _writer
from streams_recovery.segments.queries import edge_stamps, keyed_stamps, keys_from, look_into, timestamp_at
from streams_recovery.segments.schema import SEGMENT_SCHEMA
from streams_recovery.storage.repository import Repository
from tests.support.examples.event_times import Log, ahead, behind, expected, lead, logs, slices
from tests.support.examples.savepoints import segment


def table(rows: tuple[tuple[int, int], ...]) -> pa.Table:
    plain = [{"offset": offset, "timestamp": at, "timestamp_type": 0, "key": b"k", "value": b"v", "headers": None} for offset, at in rows]
    return pa.Table.from_pylist(plain, schema=SEGMENT_SCHEMA)


def store(repository: Repository, key: str, rows: tuple[tuple[int, int], ...], *, rows_of_a_group: int = 1 << 20) -> int:
    """A file as this software writes it, in groups of so many rows; its size."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "segment.parquet"
        with _writer(path, 1) as writer:
            writer.write_table(table(rows), row_group_size=rows_of_a_group)
        repository.put_file(key, path)
        return path.stat().st_size


@settings(max_examples=60, deadline=None)
@given(
    log=logs(),
    wanted=slices(),
    whole=st.booleans(),
    first=st.none() | st.integers(0, 30),
    groups=st.integers(1, 4),
    latest=st.integers(3, 7),
    written=st.just(0) | st.integers(0, 40),
)
def test_the_rows_that_are_written_are_those_that_were_counted(
    log: Log, wanted, *, whole: bool, first: int | None, groups: int, latest: int, written: int
) -> None:
    repository = Repository(StorageLocation(backend="memory"), None)
    files = []
    for piece, file in zip([piece for piece in log.pieces if piece], log.image.files(), strict=True):
        files.append(replace(file, bytes=store(repository, file.key, piece, rows_of_a_group=groups)))
        assert edge_stamps(repository, files[-1], last=False) == list(piece[:BESIDE])
        assert edge_stamps(repository, files[-1], last=True) == list(piece[-BESIDE:])
        keyed = [(b"k", at) for _, at in piece]
        assert keyed_stamps(repository, files[-1], 2, last=False) == keyed[:groups][:2]
        keys = [key for key, _ in keyed]
        assert [keys_from(repository, files[-1], 0, count) for count in (1, 2, 100)] == [keys[:1], keys[:2], keys[:100]]
        assert keys_from(repository, files[-1], files[-1].last_offset + 1, 5) == []
        assert keys_from(repository, files[-1], files[-1].last_offset, 5) == keys[-1:]
        assert keyed_stamps(repository, files[-1], 2, last=True) == keyed[(len(keyed) - 1) // groups * groups :][-2:]
        assert [timestamp_at(repository, files[-1], offset) for offset, _ in piece] == [at for _, at in piece]
    bounds = replace(bounds_of(wanted, whole=whole, first=first, written=written), latest=max(latest, wanted.closed))

    def look(file: SegmentFile, limits):
        return look_into(repository, file, limits)

    cut = slice_log(files, bounds, look)
    rows, stop = expected(log, bounds)
    found = [
        (offset, at)
        for piece in log.pieces
        for batch in table(piece).to_batches()
        for offset, at in zip(*(taken(batch, cut.rows).column(name).to_pylist() for name in ("offset", "timestamp")), strict=True)
    ]
    assert found == rows
    assert cut.rows.rows == len(rows)
    assert cut.rows.slice is not None
    assert cut.rows.slice.own == sum(at in wanted.interval for _, at in rows)
    assert cut.rows.slice.lead == lead(rows, wanted.interval)
    assert cut.rows.slice.wrong == ahead(log, bounds, stop)
    assert (cut.rows.slice.left, cut.rows.slice.around) == behind(log, bounds, stop)


def stored(rows: tuple[tuple[int, int], ...]) -> tuple[Repository, SegmentFile]:
    """A file with these rows, which is read in several batches when they are many."""
    repository, key = Repository(StorageLocation(backend="memory"), None), "orders/segments/t/0/a.parquet"
    return repository, replace(segment(0, len(rows), list(range(len(rows)))).file, key=key, bytes=store(repository, key, rows))


@pytest.mark.parametrize(("at", "lead"), [(1, 1), (69_000, 69_000), (None, 70_000)])
def test_what_comes_before_an_interval_ends_with_its_first_record_however_large_the_file(at: int | None, lead: int) -> None:
    rows = tuple((offset, 9 if offset == at else 1) for offset in range(70_000))
    repository, file = stored(rows)
    assert look_into(repository, file, bounds_of(IntervalSlice(interval=Interval(start=5, end=10)), whole=True)).lead == lead


def test_what_comes_behind_the_end_is_counted_as_left_out_however_large_the_file() -> None:
    repository, file = stored(((0, 5), (1, 9), *((offset, 5) for offset in range(2, 70_000))))
    wanted = IntervalSlice(interval=Interval(start=5, end=6), lateness=3)
    assert look_into(repository, file, bounds_of(wanted, whole=False)) == IntervalLook(
        rows=1, behind=0, own=1, lead=0, first_later=1, stop=1, left=69_998
    )
    assert edge_stamps(repository, file, last=False) == [(0, 5), (1, 9), *((offset, 5) for offset in range(2, BESIDE))]
    assert edge_stamps(repository, file, last=True) == [(offset, 5) for offset in range(70_000 - BESIDE, 70_000)]
    with pytest.raises(Damaged, match="has no record at offset 70000"):
        timestamp_at(repository, file, 70_000)
    later = replace(wanted, lateness=4)
    assert look_into(repository, file, bounds_of(later, whole=False)) == IntervalLook(
        rows=69_999, behind=69_998, own=69_999, lead=0, first_later=1, stop=None
    )
