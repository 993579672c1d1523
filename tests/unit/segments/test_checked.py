"""A segment that somebody else has written is damage, and costs no more to find out than its size.

What a footer may claim is read as it is, or refused; never anything else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments import checked, files
from streams_recovery.segments.checked import NoPage, NotThrift, _chunk, open_segment, pages
from streams_recovery.segments.files import read_segment, write_segment
from streams_recovery.segments.queries import rows_below
from streams_recovery.segments.schema import SEGMENT_SCHEMA
from streams_recovery.storage.repository import Repository
from tests.support.examples.rows import batch_of, rows_of
from tests.support.project import PROJECT
from tests.support.repository.segment_reading import KEY, damage, reads

OURS = {
    "compression": "zstd",
    "use_dictionary": False,
    "column_encoding": {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
    "write_page_checksum": True,
}


def honest(directory: Path, rows: int = 1_000) -> SegmentFile:
    """A file as this software writes it, at its key, and what its manifest says of it."""
    path = directory / KEY
    path.parent.mkdir(parents=True)
    written = write_segment([batch_of([(at + 1, b"k%d" % at, b"v" * 20, None) for at in range(rows)])], path, compression_level=3)
    assert written is not None
    return written.stored_as(KEY)


def as_written(directory: Path, table: pa.Table, **options: Any) -> SegmentFile:
    """Any other file, with a manifest that says what is true of it."""
    path = directory / KEY
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, **(OURS | options))
    return SegmentFile(
        key=KEY,
        bytes=path.stat().st_size,
        sha256=files.sha256_of(path),
        rows=len(table),
        first_offset=0,
        last_offset=len(table) - 1,
        min_timestamp=0,
        max_timestamp=9,
        payload_bytes=sum(len(value or b"") for name in ("key", "value") for value in table.column(name).to_pylist())
        if len(table) < 10**6
        else 0,
        largest_record=0,
    )


def constant(rows: int, *, key: bytes | None = None, value: bytes | None = None, headers: pa.Array | None = None) -> pa.Table:
    """Rows that are all the same, which no size shrinks to nothing."""
    return pa.table(
        [
            pa.repeat(pa.scalar(0, pa.int64()), rows),
            pa.repeat(pa.scalar(1, pa.int64()), rows),
            pa.repeat(pa.scalar(0, pa.int8()), rows),
            pa.repeat(pa.scalar(key, pa.binary()), rows),
            pa.repeat(pa.scalar(value, pa.binary()), rows),
            pa.nulls(rows, SEGMENT_SCHEMA.field("headers").type) if headers is None else headers,
        ],
        schema=SEGMENT_SCHEMA,
    )


@pytest.mark.fault("F63")
@settings(max_examples=25, deadline=None)
@given(rows=rows_of.filter(bool), groups=st.integers(1, 4))
def test_what_this_software_writes_is_read(rows: list[Any], groups: int) -> None:
    with pytest.MonkeyPatch.context() as patch, _directory() as directory:
        patch.setattr(files, "ROW_GROUP_BYTES", 1)
        path = directory / "a.parquet"
        written = write_segment([batch_of(rows)] * groups, path, compression_level=1)
        assert written is not None
        file = written.stored_as(KEY)
        read = [row for batch in read_segment(path, file) for row in batch.to_pylist()]
        assert read == batch_of(rows).to_pylist() * groups
        with path.open("rb") as handle, open_segment(handle, file) as segment:
            assert segment.rows == [len(rows)] * groups


def _directory() -> Any:
    import contextlib
    import tempfile

    @contextlib.contextmanager
    def made() -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)

    return made()


BOMBS: dict[str, tuple[Callable[[Path], SegmentFile], tuple[str, ...]]] = {
    # 32 MB of offsets in one page, in 1 kB.
    "a page of numbers": (
        lambda directory: as_written(
            directory,
            constant(4_000_000),
            column_encoding=None,
            compression_level=9,
            data_page_size=1 << 30,
            max_rows_per_page=1 << 30,
            row_group_size=1 << 24,
        ),
        ("rows below", "split", "first stamps", "all rows"),
    ),
    # A value of 100 kB, said once and meant 2,000 times.
    "a dictionary": (
        lambda directory: as_written(directory, constant(2_000, value=b"\0" * 100_000), use_dictionary=["value"]),
        ("first values", "last rows", "all rows"),
    ),
    "a value that begins as the one before": (
        lambda directory: as_written(
            directory,
            constant(2_000, value=b"\0" * 100_000),
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED", "value": "DELTA_BYTE_ARRAY"},
        ),
        ("first values", "last rows", "all rows"),
    ),
    "another compression": (
        lambda directory: as_written(directory, constant(50_000, value=b"\0" * 500), compression="gzip"),
        ("rows below", "first values", "all rows"),
    ),
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_small_file_costs_little(tmp_path: Path, bomb: str) -> None:
    make, ways = BOMBS[bomb]
    file = make(tmp_path)
    assert file.bytes < 120_000
    damage(tmp_path, file, *ways)
    if bomb != "another compression":
        (tmp_path / "file.json").write_text(json.dumps(asdict(file)))
        assert growth(PREPARE, WORK, str(tmp_path), *ways) < 40


PREPARE = """
import json
from pathlib import Path
from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.manifest import SegmentFile
from tests.support.repository.segment_reading import damage
directory = Path(sys.argv[1])
file = SegmentFile(**json.loads((directory / "file.json").read_text()))
"""
WORK = "damage(directory, file, *sys.argv[2:])"


@pytest.mark.fault("F63")
def test_a_sample_is_taken_only_of_what_fits(tmp_path: Path) -> None:
    """A row group may be larger than twice its size when one record is. It can be restored, and is not looked into while planning."""
    file = as_written(tmp_path, constant(700, value=b"\0" * 100_000))
    assert file.bytes < 20_000
    assert file.payload_bytes > 64 << 20
    found = reads(tmp_path, file)
    assert (found["first values"](), found["last rows"]()) == ([], [])
    assert sum(len(batch) for batch in read_segment(tmp_path / KEY, file)) == 700
    assert "by the manifest they have" in damage(tmp_path, replace(file, payload_bytes=1_000))


@pytest.mark.fault("F63")
def test_headers_that_are_too_many_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of nothing costs four bytes, which shrink to none."""
    entries = 1_000_000
    one = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar("", pa.string()), entries), pa.nulls(entries, pa.binary())],
        fields=list(SEGMENT_SCHEMA.field("headers").type.value_type),
    )
    headers = pa.ListArray.from_arrays(pa.array([0, entries], pa.int32()), one, type=SEGMENT_SCHEMA.field("headers").type)
    file = as_written(tmp_path, constant(1, headers=headers))
    assert file.bytes < 10_000
    assert sum(len(batch) for batch in read_segment(tmp_path / KEY, file)) == 1
    monkeypatch.setattr(checked, "_MOST_HEADERS", 1 << 20)
    assert "in headers.list.element.key and headers.list.element.value" in damage(tmp_path, file)


def altered(directory: Path, change: Callable[[bytearray], object]) -> SegmentFile:
    file = honest(directory)
    data = bytearray((directory / KEY).read_bytes())
    change(data)
    (directory / KEY).write_bytes(data)
    return replace(file, bytes=len(data))


def _footer(data: bytearray, length: int) -> None:
    data[-8:-4] = length.to_bytes(4, "little")


ALTERED: dict[str, tuple[Callable[[bytearray], object], str]] = {
    "a footer longer than the file": (lambda data: _footer(data, 2**31), "claims a footer of 2147483648 bytes"),
    "a footer longer than we read": (lambda data: _footer(data, len(data) + 1), "claims a footer of"),
    "a footer of nothing": (lambda data: _footer(data, 0), "cannot be read"),
    "no Parquet": (lambda data: data.__setitem__(slice(None), b"x" * 1_000), "claims a footer of"),
    "nearly nothing": (lambda data: data.__delitem__(slice(5, None)), "claims a footer|cannot be read"),
    "nothing": (lambda data: data.clear(), "cannot be read"),
    "a footer of zeros": (lambda data: data.__setitem__(slice(-200, -8), bytes(192)), "."),
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("name", list(ALTERED))
def test_a_file_without_a_footer_of_ours_is_damage(tmp_path: Path, name: str) -> None:
    import re

    change, why = ALTERED[name]
    assert re.search(why, damage(tmp_path, altered(tmp_path, change)))


@pytest.mark.fault("F63")
def test_another_size_or_number_of_rows_is_damage_before_a_row_is_read(tmp_path: Path) -> None:
    file = honest(tmp_path)
    assert f"has {file.bytes} bytes, not {file.bytes - 1}" in damage(tmp_path, replace(file, bytes=file.bytes - 1), "all rows")
    assert "more than the" in damage(tmp_path, replace(file, bytes=file.bytes - 1), "rows below")
    assert f"has {file.bytes} bytes, not {file.bytes + 1}" in damage(tmp_path, replace(file, bytes=file.bytes + 1))
    assert f"has {file.bytes} bytes, not {9 << 20}" in damage(tmp_path, replace(file, bytes=9 << 20)), "one that is read in ranges"
    assert "has rows 1000, not 999" in damage(tmp_path, replace(file, rows=999))


@pytest.mark.fault("F63")
@pytest.mark.parametrize("levels", [0, 20_000])
def test_a_schema_that_is_not_a_segment_s_is_damage_before_arrow_sees_it(tmp_path: Path, levels: int) -> None:
    """Arrow up to version 23 ends the process at so many levels. With names of this length there are not too many parts for the size of the footer."""

    def other(data: bytearray) -> None:
        footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
        reader = checked.Reader(bytes(footer))
        # The version, and the beginning of the list of the schema.
        reader._byte(), reader._signed(), reader._byte()
        start = reader.at
        reader._list(8)
        nested = [b"\x35\x00\x18\x1e" + b"a" * 30 + b"\x15\x02\x00"] * levels
        leaf = b"\x15\x02\x25\x00\x18\x01z\x00"
        count = levels + 1
        listed = bytes([0xFC, count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
        changed = footer[:start] + listed + b"".join(nested) + leaf + footer[reader.at :]
        data[-8 - len(footer) :] = changed + len(changed).to_bytes(4, "little") + b"PAR1"

    assert "its schema has not the parts" in damage(tmp_path, altered(tmp_path, other))


def _page_of_values(data: bytes) -> tuple[int, int]:
    """Where the page of values begins, and its size without its header."""
    column = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(4)
    (page,) = pages(
        lambda at, count: data[at : at + count], column.data_page_offset, column.data_page_offset + column.total_compressed_size
    )
    return column.data_page_offset, page.unpacked


@pytest.mark.fault("F63")
def test_a_page_that_claims_more_than_the_footer_is_damage_before_it_is_unpacked(tmp_path: Path) -> None:
    def larger(data: bytearray) -> None:
        start, _ = _page_of_values(bytes(data))
        # The kind of the page, then its size: a varint of three bytes that may become any other one.
        assert data[start : start + 3] == b"\x15\x00\x15"
        assert data[start + 3] & 0x80
        assert data[start + 4] & 0x80
        data[start + 3 : start + 6] = b"\xfe\xff\x7f"

    file = altered(tmp_path, larger)
    assert "the footer claims" in damage(tmp_path, file, "first values", "last rows", "all rows", "contents")
    assert reads(tmp_path, file)["rows below"]() == 5, "of other columns nothing is wrong"


@pytest.mark.fault("F63")
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_stands_where_a_page_should_begin_ends_soon(data: bytes) -> None:
    try:
        found = list(pages(lambda at, count: data[at : at + count], 0, len(data)))
    except NoPage:
        return
    assert sum(page.size for page in found) == len(data)


@pytest.mark.fault("F63")
def test_header_keys_that_are_no_text_are_damage(tmp_path: Path) -> None:
    kind = SEGMENT_SCHEMA.field("headers").type
    keys = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    entries = pa.StructArray.from_arrays([keys, pa.array([b"v"], pa.binary())], fields=list(kind.value_type))
    headers = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), entries, type=kind)
    file = as_written(tmp_path, constant(1, key=b"k", headers=headers))
    assert "UTF8" in damage(tmp_path, file, "all rows", "contents")


@pytest.mark.fault("F63")
def test_a_repository_that_does_not_answer_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streams_recovery.core.errors import RepositoryUnavailable

    file = honest(tmp_path)
    monkeypatch.setattr("streams_recovery.segments.queries._SMALL", 0)

    def refuse(self: Repository, key: str, start: int, end: int) -> bytes:
        raise RepositoryUnavailable("nobody answers", next_step="try again")

    monkeypatch.setattr(Repository, "_range", refuse)
    with pytest.raises(RepositoryUnavailable):
        rows_below(Repository(StorageLocation(backend="filesystem", path=str(tmp_path))), file, 5)


@pytest.mark.parametrize("encodings", [[[0]], [{1: 0}], [b"0"], [99], 0, None])
def test_encodings_that_are_no_known_numbers_are_refused(encodings: object) -> None:
    column = {1: 6, 2: encodings, 3: [b"key"], 4: 6, 5: 1, 6: 1, 7: 1, 9: 4}
    with pytest.raises(NotThrift, match="not as this software writes it"):
        _chunk({3: column})  # type: ignore[dict-item]


def test_and_those_that_are_known_are_taken() -> None:
    name, chunk = _chunk({3: {1: 6, 2: [0, 3], 3: [b"key"], 4: 6, 5: 1, 6: 2, 7: 3, 9: 4}})
    assert (name, chunk.values, chunk.unpacked, chunk.packed, chunk.start) == ("key", 1, 2, 3, 4)


_MEASURED = """
import resource, sys
{prepare}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{work}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def growth(prepare: str, work: str, *arguments: str) -> int:
    """MiB by which a process that has done ``prepare`` grows at most while it does ``work``: Python both, with ``arguments`` in ``sys.argv``."""
    script = _MEASURED.format(prepare=prepare, work=work)
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'plugins'}{os.pathsep}{PROJECT}"}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=PROJECT, env=environment, check=True, capture_output=True, text=True, timeout=300)
    return int(done.stdout.split()[-1])
