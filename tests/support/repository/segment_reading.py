"""Every way in which a segment is read, each of which has to notice what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.segments.files import contents_of, read_segment
from streams_recovery.segments.queries import (
    edge_stamps,
    first_values,
    keyed_stamps,
    keys_from,
    last_rows,
    rows_below,
    split_at,
    timestamp_at,
)
from streams_recovery.storage.repository import Repository

KEY = "orders/segments/t/0/a.parquet"


def reads(directory: Path, file: SegmentFile) -> dict[str, Callable[[], object]]:
    """Everything that reads a segment."""
    repository = Repository(StorageLocation(backend="filesystem", path=str(directory)))
    return {
        "rows below": lambda: rows_below(repository, file, 5),
        "split": lambda: split_at(repository, file, 3),
        "first stamps": lambda: edge_stamps(repository, file, last=False),
        "last stamps": lambda: edge_stamps(repository, file, last=True),
        "stamp at": lambda: timestamp_at(repository, file, file.first_offset),
        "first values": lambda: first_values(repository, file, 20),
        "last rows": lambda: last_rows(repository, file, 20),
        "first keys": lambda: keyed_stamps(repository, file, 20, last=False),
        "keys from an offset": lambda: keys_from(repository, file, 0, 20),
        "last keys": lambda: keyed_stamps(repository, file, 20, last=True),
        "all rows": lambda: list(read_segment(directory / KEY, file)),
        "contents": lambda: contents_of(directory / KEY, file),
    }


def damage(directory: Path, file: SegmentFile, *which: str) -> str:
    """What these ways to read it end with, all of them if none is named: the same for each."""
    found = []
    for name, read in reads(directory, file).items():
        if not which or name in which:
            with pytest.raises(Damaged, match=KEY) as caught:
                read()
            found.append(caught.value.reason)
    assert found
    return found[0]
