"""A log that others write to all the time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from streams_recovery.core.errors import RepositoryUnavailable
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    text: str


def test_who_is_never_the_first_gives_up_after_a_hundred_attempts_and_has_written_nothing(tmp_path: Path) -> None:
    log, other = (
        AppendLog(Repository(StorageLocation(backend="filesystem", path=str(tmp_path))), Layout("orders").holds, Entry) for _ in range(2)
    )

    def too_slow(last: Entry | None, number: int) -> Entry:
        other.append(Entry(text=f"faster {number}"))
        return Entry(text="slower")

    with pytest.raises(RepositoryUnavailable) as caught:
        log.append_after(too_slow)
    assert caught.value.facts["races"] == 100
    assert [entry.text for entry in log.read_all()] == [f"faster {number}" for number in range(1, 101)]
