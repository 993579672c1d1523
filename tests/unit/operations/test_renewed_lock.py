"""The lock of an application, for as long as a block takes."""

from __future__ import annotations

import time

import pytest

from streams_recovery.core.errors import Damaged, LockHeld
from streams_recovery.operations import renewed_lock
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import held_lock


def test_a_block_that_takes_longer_than_a_lease_keeps_the_lock(recovery: RecoveryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewed_lock, "LEASE_SECONDS", 1)
    with held_lock(recovery, "one", purpose="a long stop") as held:
        time.sleep(1.5)
        assert recovery.lock.holds(held.lock)
        with pytest.raises(LockHeld, match="a long stop"), held_lock(recovery, "other", purpose="something else"):
            pytest.fail("both have the lock")
    assert recovery.lock.holder() is None


def test_a_block_that_fails_gives_the_lock_back(recovery: RecoveryContext) -> None:
    with pytest.raises(Damaged, match="broken"), held_lock(recovery, "one", purpose="a stop"):
        raise Damaged("broken", next_step="mend it")
    assert recovery.lock.holder() is None
