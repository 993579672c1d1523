"""One group of files, merged as a task does it."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.transforms.merge import merge_group
from streams_recovery.core.compaction.values import RangeToCompact
from streams_recovery.core.errors import Damaged
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.compaction_proof import Compaction
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments.files import read_segment, write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from streams_recovery.storage.repository import Repository

LAYOUT, TP = Layout("app"), TopicPartition("app-totals-changelog", 3)
Rows = list[dict[str, object]]


class Altering(Repository):
    """One in which a bit of what is put there flips."""

    def put_file(self, key: str, path: Path) -> None:
        """Store it, with another bit."""
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        super().put_file(key, path)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))


def part(repository: Repository, directory: Path, offsets: list[int], dice: random.Random) -> tuple[SegmentFile, Rows]:
    """A file with a row of any shape at each of these offsets."""
    columns = [
        pa.array(offsets, pa.int64()),
        pa.array([dice.choice([-1, 0, 5, 1_800_000_000_000, dice.randrange(100)]) for _ in offsets], pa.int64()),
        pa.array([dice.choice([-1, 0, 1]) for _ in offsets], pa.int8()),
        pa.array([dice.choice([None, b"", b"k%d" % dice.randrange(9)]) for _ in offsets], pa.binary()),
        pa.array([dice.choice([None, b"", bytes(dice.randrange(300))]) for _ in offsets], pa.binary()),
        header_array([dice.choice([None, [("h", None)], [("h", b""), ("h", b"x")]]) for _ in offsets]),
    ]
    batch = pa.record_batch(columns, schema=SEGMENT_SCHEMA)
    path = directory / "part.parquet"
    file = write_segment([batch], path, compression_level=1)
    assert file is not None
    key = LAYOUT.segment(TP, offsets[0], offsets[-1] + 1, "a")
    repository.put_file(key, path)
    path.unlink()
    return file.stored_as(key), batch.to_pylist()


def group(repository: Repository, directory: Path, *sizes: int) -> tuple[RangeToCompact, Rows]:
    """Files with so many rows each, with holes between offsets."""
    dice, files, rows, at = random.Random(len(sizes)), [], Rows(), 7
    for size in sizes:
        offsets = sorted(dice.sample(range(at, at + 3 * size), size))
        file, more = part(repository, directory, offsets, dice)
        files.append(file)
        rows += more
        at += 3 * size
    return RangeToCompact(tp=TP, start=7, end=at, compacted=Compaction.LATEST_PER_KEY, files=tuple(files)), rows


def test_one_file_has_every_row_of_all_of_them_as_it_was(repository: Repository, tmp_path: Path) -> None:
    wanted, rows = group(repository, tmp_path, 40, 1, 300, 7)
    done = merge_group(repository, LAYOUT, wanted, 1)
    (made,) = done.ranges
    file = made.file
    assert file is not None
    assert [row for batch in read_segment(tmp_path / file.key, file) for row in batch.to_pylist()] == rows
    assert (made.start, made.end, made.compacted) == (7, wanted.end, Compaction.LATEST_PER_KEY)
    assert (done.rows_before, done.rows_after, done.problems) == (348, 348, ())
    assert done.digest_before == done.digest_after
    again = merge_group(repository, LAYOUT, wanted, 1)
    (other,) = again.ranges
    assert other.file is not None
    assert (other.file.key != file.key, again.digest_after) == (True, done.digest_after), "each attempt has a file of its own"


def test_files_that_are_not_in_the_order_of_offsets_are_told(repository: Repository, tmp_path: Path) -> None:
    wanted, _ = group(repository, tmp_path, 5, 5, 5)
    turned = RangeToCompact(tp=TP, start=7, end=wanted.end, compacted=None, files=(wanted.files[1], wanted.files[0], wanted.files[2]))
    assert "has offsets that do not ascend" in merge_group(repository, LAYOUT, turned, 1).problems


@pytest.mark.fault("F10")
def test_what_is_in_the_repository_is_read_back_and_not_what_was_written(repository: Repository, tmp_path: Path) -> None:
    wanted, _ = group(repository, tmp_path, 5, 5, 5)
    with pytest.raises(Damaged, match="has SHA-256"):
        merge_group(Altering(StorageLocation(backend="filesystem", path=str(tmp_path))), LAYOUT, wanted, 1)


@pytest.mark.fault("F32")
def test_large_records_are_merged_too(repository: Repository, tmp_path: Path) -> None:
    files = []
    for at in range(3):
        values = pa.array([random.Random(at).randbytes(10 << 20)], pa.binary())
        columns = [pa.array([at], pa.int64()), pa.array([1], pa.int64()), pa.array([0], pa.int8()), pa.array([b"k"], pa.binary())]
        batch = pa.record_batch([*columns, values, header_array([None])], schema=SEGMENT_SCHEMA)
        file = write_segment([batch], tmp_path / "part.parquet", compression_level=1)
        assert file is not None
        key = LAYOUT.segment(TP, at, at + 1, "a")
        repository.put_file(key, tmp_path / "part.parquet")
        files.append(file.stored_as(key))
    done = merge_group(repository, LAYOUT, RangeToCompact(tp=TP, start=0, end=3, compacted=None, files=tuple(files)), 1)
    assert (done.rows_after, done.digest_after, done.problems) == (3, done.digest_before, ())
