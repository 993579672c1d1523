"""An application that is held comes back although somebody has put strange objects beside what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery import standstills
from streams_recovery.workbench import Workbench
from tests.unit.restores.test_left_stopped import application, running, stopped


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with application(tmp_path) as found:
        yield found


def junk(bench: Workbench, prefix: str, number: int | None = None) -> None:
    """An object that is no entry, by default as the newest one."""
    behind = number or len(list(bench.repository.keys(prefix))) + 1
    bench.repository.create(f"{prefix}{behind:012}.json", b"{}")


@pytest.mark.fault("F63")
def test_an_entry_of_what_stood_still_that_cannot_be_read_is_passed_over(bench: Workbench) -> None:
    stopped(bench)
    junk(bench, bench.layout.standstills)
    assert standstills.end_left(bench) == ("one",)
    assert (running(bench), standstills.left(bench)) == (True, None)
    junk(bench, bench.layout.standstills)
    assert standstills.left(bench) is None
