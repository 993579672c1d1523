"""Expiry beside others: runs of the same application, and restores of other ones, which read its savepoints. What they need, or may need, stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams_recovery.core.errors import LockHeld, LockLost
from streams_recovery.core.repository.journal import JournalEntry, Phase, RestoreScope
from streams_recovery.core.repository.layout import Layout
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.words import new_id
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.renewed_lock import LEASE_SECONDS
from streams_recovery.operations.unfinished import dismiss, other_parts
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.lock import ApplicationLock
from streams_recovery.storage.run_artifacts import RunArtifacts
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import FIRST, SECOND_AT, OpenGolden, age, checked, root


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


def of_another(
    recovery: RecoveryContext, *phases: Phase, scope: RestoreScope = RestoreScope.STATE, plan: bool = True, number: int = 1
) -> str:
    """A restore of a clone that begins from the first savepoint. Returns the prefix of its journal."""
    restore_id, layout = new_id(SECOND_AT + 1_000 * number, f"run-{number}"), Layout("golden-next")
    if plan:
        named = replace(PLAN, application_id="golden-next", source_application_id="golden", create=(), savepoint_id=FIRST)
        RunArtifacts(recovery.repository, layout).write_once(restore_id, "restore-plan", named)
    journal = AppendLog(recovery.repository, layout.journal(restore_id), JournalEntry)
    for phase in phases:
        journal.append(JournalEntry(phase=phase, at=SECOND_AT, created=(), scope=scope))
    return layout.journal(restore_id)


@pytest.mark.fault("F79")
@pytest.mark.parametrize(
    ("phases", "kept"),
    [
        ((Phase.OPENED, Phase.STOPPED), False),
        ((Phase.OPENED, Phase.DESTROYING), True),
        ((Phase.OPENED, Phase.CREATED, Phase.LOADED), True),
        ((Phase.OPENED, Phase.CREATED, Phase.LOADED, Phase.CLOSED), False),
    ],
)
@pytest.mark.parametrize("scope", RestoreScope)
def test_the_savepoint_that_an_unfinished_restore_of_another_application_reads_stays(
    golden: OpenGolden, phases: tuple[Phase, ...], scope: RestoreScope, *, kept: bool
) -> None:
    recovery = golden("good", now=SECOND_AT + DAY_MS)
    of_another(recovery, *phases, scope=scope)
    plan = maintenance.plan_expiry(recovery)
    assert [one.savepoint_id for one in plan.expire] == ([] if kept else [FIRST])
    assert ("of golden-next, which is not finished" in maintenance.expiry_text(plan)) is kept
    assert maintenance.expire(recovery, "r").expired == (() if kept else (FIRST,))


@pytest.mark.fault("F79")
def test_a_restore_of_another_application_that_has_only_begun_keeps_its_savepoint_while_it_may_be_at_work(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + DAY_MS)
    of_another(recovery, Phase.OPENED)
    lock = ApplicationLock(recovery.repository, Layout("golden-next"), recovery.clock)
    held = lock.acquire("restore", lease_seconds=600, purpose="a restore")
    assert maintenance.expire(recovery, "r").expired == ()
    lock.release(held)
    assert maintenance.expire(recovery, "s").expired == (FIRST,)


@pytest.mark.fault("F79")
def test_a_later_restore_of_the_other_application_stands_for_the_one_that_failed(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + DAY_MS)
    of_another(recovery, Phase.OPENED, Phase.CREATED)
    assert maintenance.expire(recovery, "r").expired == ()
    of_another(recovery, Phase.OPENED, Phase.CREATED, Phase.LOADED, Phase.CLOSED, number=2)
    assert maintenance.expire(recovery, "s").expired == (FIRST,)


@pytest.mark.fault("F79")
@pytest.mark.parametrize("what", ["no plan", "no journal that can be read"])
def test_a_restore_of_another_application_that_nobody_can_read_keeps_every_savepoint_and_file(golden: OpenGolden, what: str) -> None:
    recovery = golden("good", now=SECOND_AT + 90 * DAY_MS)
    journal = of_another(recovery, Phase.OPENED, Phase.CREATED, plan=what != "no plan")
    if what != "no plan":
        recovery.repository.create(f"{journal}{3:012}.json", b"junk")
    plan = maintenance.plan_expiry(recovery)
    assert plan.expire == plan.files == ()
    restore_id = journal.split("/")[2]
    unknown = f"no configuration here has the application id golden-next: with one that has, `dismiss` and {restore_id} end that restore"
    assert plan.not_judged == (f"no file may go while these cannot be read: {journal} ({unknown})",)
    # The name of its own configuration, and not of the application that expires.
    next_config = recovery.config.model_copy(
        update={"name": "next", "application": recovery.config.application.model_copy(update={"id": "golden-next"})}
    )
    known = replace(recovery, applications=lambda: {"golden": recovery.config, "next": next_config})
    (told,) = maintenance.plan_expiry(known).not_judged
    assert told.endswith(f"(to end that restore: streams-recovery dismiss next {restore_id})")
    dismiss(next(other_parts(known)), restore_id)
    assert maintenance.plan_expiry(known).not_judged == ()
