"""Expiry beside others, and by a clock that is wrong."""

from __future__ import annotations

import pytest

from streams_recovery.core.errors import LockHeld, LockLost
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, OpenGolden, age, checked, root


def files(recovery: RecoveryContext) -> set[str]:
    return {str(path) for path in root(recovery).rglob("*") if path.is_file()}


@pytest.mark.fault("F17")
@pytest.mark.parametrize(("owner", "purpose"), [("savepoint cli-1", "savepoint of golden"), ("restore cli-1", "restore of golden")])
def test_while_anybody_reads_or_writes_nothing_expires(golden: OpenGolden, owner: str, purpose: str) -> None:
    recovery = golden("good", now=SECOND_AT)
    age(recovery, days=1000, now=SECOND_AT)
    lock = recovery.lock.acquire(owner, lease_seconds=LEASE_SECONDS, purpose=purpose)
    before = files(recovery)
    with pytest.raises(LockHeld) as caught:
        maintenance.expire(recovery, "r")
    assert caught.value.facts == {"owner": owner, "purpose": purpose, "expires_at": SECOND_AT + LEASE_SECONDS * 1000}
    assert caught.value.exit_code == 5
    assert files(recovery) == before
    recovery.lock.renew(lock, lease_seconds=LEASE_SECONDS)
    assert checked(recovery, "full").good


@pytest.mark.fault("F17")
@pytest.mark.parametrize(("days", "left"), [(-2, [FIRST, SECOND]), (2, [SECOND]), (400, [SECOND])])
def test_a_wrong_clock_expires_no_more_than_the_rules_do(golden: OpenGolden, days: int, left: list[str]) -> None:
    recovery = golden("good", now=SECOND_AT + days * DAY_MS)
    age(recovery, days=0, now=SECOND_AT)
    for run in ("once", "twice"):
        maintenance.expire(recovery, run)
        assert recovery.savepoints.ids() == left
        named = {one.key for one in checked(recovery, "full").findings}
        assert named == ({recovery.savepoints.key(one) for one in left} if days < 0 else set()), "only that a clock is wrong"
    assert maintenance.plan_expiry(recovery).expire == ()


@pytest.mark.fault("F17")
def test_a_clock_ahead_that_takes_the_lock_of_a_living_run_takes_none_of_its_files(golden: OpenGolden) -> None:
    recovery, ahead = golden("good", now=SECOND_AT), golden("good", now=SECOND_AT + 2 * DAY_MS)
    lock = recovery.lock.acquire("savepoint cli-1", lease_seconds=LEASE_SECONDS, purpose="savepoint of golden")
    copied = root(recovery) / "segments" / "golden-totals-changelog" / "0" / "of-a-savepoint-in-the-making.parquet"
    copied.write_bytes(b"rows")
    age(recovery, days=0, now=SECOND_AT)
    report = maintenance.expire(ahead, "r")
    assert (report.expired, report.files_removed) == ((FIRST,), 0)
    assert copied.exists()
    with pytest.raises(LockLost) as caught:
        recovery.lock.renew(lock, lease_seconds=LEASE_SECONDS)
    assert caught.value.facts == {"owner": "savepoint cli-1", "number": lock.number}
