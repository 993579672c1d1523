"""A savepoint as the documentation describes one, and the documentation's own code to read it with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams_recovery.core.kafka_types import TopicPartition, TopicRole
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.manifest import CopiedRange, Gap, PartitionImage
from streams_recovery.segments.files import write_segment
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.project import PROJECT
from tests.support.repository import make_golden

LAYOUT = Layout("order-processor")
TOPIC = "order-processor-order-totals-changelog"
FIRST, SECOND = "20261121T000000Z-0000000001", "20261121T010000Z-0000000002"

# offset, timestamp, timestamp_type, key, value, headers
Row = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
OLDER: list[Row] = [
    (0, 1_700_000_000_000, 0, b"gone", b"1", None),
    (1, 0, 0, b"", b"of the empty key", [("trace", b"1"), ("trace", b"1"), ("a", b"2"), ("trace", None)]),
    (2, -1, -1, b"kept", b"old", None),
    (5, -62_135_596_800_000, 0, b"empty", b"not yet", [("", b""), ("\u00fc", b"\xff\x00")]),
    (6, 2**62, 1, None, b"without a key", None),
    (7, 2**63 - 1, 0, b"\x00\xff", b"\xff\x00" * 5_000, [("h", None)]),
]
NEWER: list[Row] = [
    (10, 1, 0, b"gone", None, None),
    (12, 1_600_000_000_000, 0, b"kept", b"new, and older by its time", [("z", b"1"), ("a", b"2")]),
    (13, 5, 1, b"empty", b"", None),
]
OTHER: list[Row] = [(3, 7, 0, b"elsewhere", b"1", None), (4, 6, 0, b"elsewhere", b"2", None)]
# Of an attempt that failed: right there in the directory, named by no manifest, and with the newest word on every key.
ORPHAN: list[Row] = [(20, 9, 0, b"kept", b"never committed to", None), (21, 9, 0, b"gone", b"back again", None)]

ROWS = sorted([*OLDER, *NEWER, *OTHER], key=lambda row: row[0])
STATE = {
    b"": b"of the empty key",
    b"kept": b"new, and older by its time",
    b"empty": b"",
    None: b"without a key",
    b"\x00\xff": b"\xff\x00" * 5_000,
    b"elsewhere": b"2",
}


def write_savepoints(directory: Path) -> Path:
    """``directory/repository`` with two savepoints of which the second shares the first one's files; its root is returned."""
    root = directory / "repository"
    root.mkdir()
    older = _segment(root, 0, 0, 8, OLDER)
    newer, other = _segment(root, 0, 10, 15, NEWER), _segment(root, 1, 3, 5, OTHER)
    _segment(root, 0, 15, 22, ORPHAN)
    idle = CopiedRange(start=8, end=10, file=None)
    gap = (Gap(start=0, end=3, reason="deleted by retention before it was copied"),)
    store = SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(root))), LAYOUT)
    for savepoint_id, hour, parent, first in ((FIRST, 0, None, (older,)), (SECOND, 1, FIRST, (older, idle, newer))):
        images = (_image(0, first[-1].end, first), make_golden.image(1, 5, (other,), gaps=gap))
        topic = make_golden.topic(TOPIC, TopicRole.CHANGELOG, images)
        published = make_golden.manifest(savepoint_id, hour, parent, (topic,))
        store.publish(replace(published, application_id=LAYOUT.application_id))
    return root


def _image(number: int, end: int, ranges: tuple[CopiedRange, ...]) -> PartitionImage:
    return make_golden.image(number, end, ranges)


def _segment(root: Path, partition: int, start: int, end: int, rows: Sequence[Row]) -> CopiedRange:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns[:5], SEGMENT_SCHEMA, strict=False)]
    headers = header_array(list(columns[5]))
    key = LAYOUT.segment(TopicPartition(TOPIC, partition), start, end, "attempt")
    (root / key).parent.mkdir(parents=True, exist_ok=True)
    written = write_segment([pa.record_batch([*arrays, headers], schema=SEGMENT_SCHEMA)], root / key, compression_level=3)
    assert written is not None
    return CopiedRange(start=start, end=end, file=written.stored_as(key))


def code_of(page: str, language: str, containing: str) -> str:
    """The one block of code in ``page`` (a path in the project) that has this text in it, exactly as it stands there."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (PROJECT / page).read_text(), flags=re.S)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


def row_of(columns: dict[str, Any]) -> Row:
    """A row as a reader gives it, in the form of those above."""
    headers = columns["headers"]
    pairs = None if headers is None else [(pair["key"], pair["value"]) for pair in headers]
    value, key = columns["value"], columns["key"]
    return (columns["offset"], columns["timestamp"], columns["timestamp_type"], _bytes(key), _bytes(value), pairs)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
