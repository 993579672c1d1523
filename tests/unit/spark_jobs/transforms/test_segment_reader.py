"""Files with records on both sides of a moment: what is counted when a restore is planned is what a task takes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_jobs.transforms.segment_reader import chosen_batches
from streams_recovery.core.errors import Damaged
from streams_recovery.core.jobs.spec import CutBy, OffsetSpan, RowCut
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.restore.outputs_behind import joined
from streams_recovery.core.restore.point_in_time import AsOf, cut_log, rank, rest_of
from streams_recovery.segments.files import write_segment
from streams_recovery.segments.queries import rows_below_and_no_later, split_at
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from streams_recovery.storage.repository import Repository


def stored(repository: Repository, directory: Path, key: str, rows: list[tuple[int, int]]) -> SegmentFile:
    """Rows (offset, timestamp) as a segment."""
    columns = [
        pa.array([offset for offset, _ in rows], pa.int64()),
        pa.array([at for _, at in rows], pa.int64()),
        pa.array([0] * len(rows), pa.int8()),
        pa.array([b"k"] * len(rows), pa.binary()),
        pa.array([b"v"] * len(rows), pa.binary()),
        header_array([None] * len(rows)),
    ]
    path = directory / "segment.parquet"
    path.unlink(missing_ok=True)
    written = write_segment([pa.record_batch(columns, schema=SEGMENT_SCHEMA)], path, compression_level=1)
    assert written is not None
    repository.create(key, path.read_bytes())
    return written.stored_as(key)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stamps=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=8), max_size=4),
    moment=st.integers(0, 6),
    by=st.sampled_from(CutBy),
    written=st.just(0) | st.integers(0, 30),
)
@example(stamps=[[1, 5, 2], [2, 2], [6, 3]], moment=2, by=CutBy.TIMESTAMP, written=0)
@example(stamps=[[1, 5, 2], [2, 2], [6, 3]], moment=2, by=CutBy.POSITION, written=0)
@example(stamps=[[1, 5, 2], [5, 6], [6, 3]], moment=2, by=CutBy.TIMESTAMP, written=7)
@example(stamps=[[1, 5, 2], [5, 6], [6, 3]], moment=2, by=CutBy.POSITION, written=7)
def test_a_task_takes_the_rows_that_were_planned(
    tmp_path_factory: pytest.TempPathFactory, stamps: list[list[int]], moment: int, by: CutBy, written: int
) -> None:
    directory = tmp_path_factory.mktemp("files")
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), None)
    files, rows = [], []
    for number, piece in enumerate(stamps):
        # With holes: a marker or an aborted record has an offset and is no row.
        numbered = [(2 * (len(rows) + at), stamp) for at, stamp in enumerate(piece)]
        rows += numbered
        files.append(stored(repository, directory, f"app/segments/t/0/{number}.parquet", numbered))
    cut = cut_log(files, AsOf(moment=moment, by=by), lambda *asked: split_at(repository, *asked), written=written)
    taken = [offset for batch in chosen_batches(repository, cut.files, cut.rows) for offset in batch.column("offset").to_pylist()]
    first = next((offset for offset, at in rows if at > moment and offset >= written), None)
    assert cut.rows.first_later == first
    if by is CutBy.TIMESTAMP:
        assert taken == [offset for offset, at in rows if at <= moment or offset < written]
    else:
        assert taken == [offset for offset, _ in rows if first is None or offset < first]
    assert cut.rows.rows == len(taken)
    rest = rest_of(files, cut.rows)
    left = [offset for batch in chosen_batches(repository, rest.files, rest.rows) for offset in batch.column("offset").to_pylist()]
    assert rest.rows.rows == len(left)
    assert left == [offset for offset, _ in rows if offset not in taken]
    for committed in range(2 * len(rows) + 1):
        before = rank(cut, committed, lambda *asked: rows_below_and_no_later(repository, *asked))
        assert before == sum(offset < committed for offset in taken)


def test_a_file_whose_timestamps_are_not_what_its_description_says_is_damaged(tmp_path: Path) -> None:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")), None)
    file = stored(repository, tmp_path, "app/segments/t/0/a.parquet", [(0, 1), (1, 2)])
    with pytest.raises(Damaged, match="has no record later than 2"):
        split_at(repository, file, 2)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.sets(st.integers(0, 30), min_size=1), out=st.sets(st.integers(0, 30), min_size=1))
@example(rows={0, 5, 9}, out={0, 9})
@example(rows={3, 4, 5}, out={0, 6})
def test_rows_at_offsets_that_are_left_out_are_not_taken(tmp_path_factory: pytest.TempPathFactory, rows: set[int], out: set[int]) -> None:
    directory = tmp_path_factory.mktemp("files")
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory / "repository")), None)
    file = stored(repository, directory, "shop/segments/out/0/a.parquet", [(offset, 1) for offset in sorted(rows)])
    spans = joined(OffsetSpan(first=offset, last=offset) for offset in sorted(out))
    wanted = RowCut(by=CutBy.POSITION, moment=1, first_later=None, rows=len(rows - out), late=0, left_out=spans)
    taken = [offset for batch in chosen_batches(repository, (file,), wanted) for offset in batch.column("offset").to_pylist()]
    assert taken == sorted(rows - out)
