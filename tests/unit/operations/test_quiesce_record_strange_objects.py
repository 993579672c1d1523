"""An application that is held comes back although somebody has put strange objects beside what is recorded of it."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import Damaged, LockLost
from streams_recovery.core.repository.journal import Phase
from streams_recovery.operations import quiesce_record
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import HeldLock
from streams_recovery.operations.restore.open import note
from tests.support.applications.unreachable import opened, running, stopped
from tests.support.leases import later


def junk(recovery: RecoveryContext, prefix: str, number: int | None = None) -> None:
    """An object that is no entry, by default as the newest one."""
    behind = number or len(list(recovery.repository.keys(prefix))) + 1
    recovery.repository.create(f"{prefix}{behind:012}.json", b"{}")


@pytest.mark.fault("F63")
def test_an_entry_of_what_stood_still_that_cannot_be_read_is_passed_over(recovery: RecoveryContext) -> None:
    stopped(recovery)
    junk(recovery, recovery.layout.quiesce_records)
    assert quiesce_record.resume_abandoned(recovery) == ("one",)
    assert (running(recovery), quiesce_record.left(recovery)) == (True, None)
    junk(recovery, recovery.layout.quiesce_records)
    assert quiesce_record.left(recovery) is None


@pytest.mark.fault("F63")
@pytest.mark.parametrize("number", [None, 900], ids=["unreadable", "with a number far ahead"])
def test_a_strange_record_of_the_lock_leaves_nobody_held(recovery: RecoveryContext, number: int | None) -> None:
    ticket = HeldLock(lock=recovery.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    junk(recovery, recovery.layout.locks, number)
    quiesce_record.check_may_resume(recovery, ticket)
    quiesce_record.check_may_resume(later(recovery), ticket)


@pytest.mark.fault("F63")
def test_but_not_while_a_restore_is_unfinished(recovery: RecoveryContext) -> None:
    ticket = opened(recovery)
    note(recovery, ticket, Phase.DESTROYING)
    junk(recovery, recovery.layout.locks)
    with pytest.raises(Damaged, match=recovery.layout.locks):
        quiesce_record.check_may_resume(recovery, ticket)


@pytest.mark.fault("F63")
def test_nor_while_another_run_had_the_lock_as_far_as_it_can_be_read(recovery: RecoveryContext) -> None:
    ticket = HeldLock(lock=recovery.lock.acquire("savepoint", lease_seconds=60, purpose="a test"))
    after = later(recovery)
    after.lock.acquire("somebody", lease_seconds=60, purpose="a test")
    junk(recovery, recovery.layout.locks)
    with pytest.raises(LockLost, match="the newest record is of somebody"):
        quiesce_record.check_may_resume(after, ticket)
    quiesce_record.check_may_resume(later(after), ticket)
