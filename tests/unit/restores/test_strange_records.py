"""An application that is held comes back although somebody has put strange objects beside what is recorded of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams_recovery.core.errors import Damaged, LockLost
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.context import Workbench
from streams_recovery.operations.renewed_lock import Held
from streams_recovery.operations.restore.open import note
from tests.unit.restores.test_left_stopped import application, later, opened, running, stopped


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
    assert quiesce_record.end_left(bench) == ("one",)
    assert (running(bench), quiesce_record.left(bench)) == (True, None)
    junk(bench, bench.layout.standstills)
    assert quiesce_record.left(bench) is None


@pytest.mark.fault("F63")
@pytest.mark.parametrize("number", [None, 900], ids=["unreadable", "with a number far ahead"])
def test_a_strange_record_of_the_lock_leaves_nobody_held(bench: Workbench, number: int | None) -> None:
    ticket = Held(lock=bench.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    junk(bench, bench.layout.locks, number)
    quiesce_record.check_may_let_go(bench, ticket)
    quiesce_record.check_may_let_go(later(bench), ticket)


@pytest.mark.fault("F63")
def test_but_not_while_a_restore_is_unfinished(bench: Workbench) -> None:
    ticket = opened(bench)
    note(bench, ticket, Phase.DESTROYING)
    junk(bench, bench.layout.locks)
    with pytest.raises(Damaged, match=bench.layout.locks):
        quiesce_record.check_may_let_go(bench, ticket)


@pytest.mark.fault("F63")
def test_nor_while_another_run_had_the_lock_as_far_as_it_can_be_read(bench: Workbench) -> None:
    ticket = Held(lock=bench.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    after = later(bench)
    after.lock.acquire("somebody", lease_seconds=60, purpose="a test")
    junk(bench, bench.layout.locks)
    with pytest.raises(LockLost, match="the newest record is of somebody"):
        quiesce_record.check_may_let_go(after, ticket)
    quiesce_record.check_may_let_go(later(after), ticket)
