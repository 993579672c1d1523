"""What runs and killed writers leave behind: it goes when nobody can need it any more, and not before.

What a repository must hold besides files: manifests that were published, logs without holes.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from streams_recovery.config.sandbox import Drill
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound
from streams_recovery.core.jobs.progress import job_key, progress_directory, tasks_prefix
from streams_recovery.core.jobs.spec import failure_key
from streams_recovery.core.repository.check import Cause, CheckReport, SampleProgress
from streams_recovery.core.repository.encryption import KeyAccess, KeyPlace, new_key_id
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.lease import LockRecord
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.restore.parts.rebuild import RebuildPart
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.maintenance.contents import drills_of
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.keys.keyring import Keyring
from streams_recovery.storage.repository import Repository
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import (
    FIRST,
    SECOND,
    SECOND_AT,
    THIRD,
    OpenGolden,
    age,
    checked,
    hold,
    logs,
    on,
    path_of,
    root,
    third,
)

RESTORE, LATER = "20261121T020000Z-00000000aa", "20261121T030000Z-00000000ab"
NOW = SECOND_AT
NOTE = SampleProgress(upto="0" * 64, read=1, files=1, checks=1, began_at=0, whole_since=None)


def leave(recovery: RecoveryContext, run: str, *names: str) -> list[str]:
    """Artifacts of a run as its steps and its jobs leave them."""
    keys = [recovery.artifacts.write(run, name, NOTE).key for name in names or ("cut-draft", "copy-plan")]
    result = recovery.artifacts.reserve(run, f"copy-result-{'ab' * 16}")
    progress, task = job_key(result, 1), f"{tasks_prefix(progress_directory(result), 0, 59_840_640)}7-ab.json"
    more = [result, failure_key(result), progress, task]
    for key in more:
        recovery.repository.create(key, b"{}")
    return [*keys, *more]


def journal(recovery: RecoveryContext, *phases: Phase, of: str = RESTORE) -> None:
    log = AppendLog(recovery.repository, recovery.layout.journal(of), JournalEntry)
    for phase in phases:
        log.append(JournalEntry(phase=phase, at=SECOND_AT, created=()))


def work(recovery: RecoveryContext) -> set[str]:
    return set(recovery.repository.keys(recovery.layout.artifacts))


def test_the_work_of_a_run_goes_when_it_is_old_enough_and_its_directory_with_it(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    left = leave(recovery, SECOND)
    age(recovery, days=29, now=NOW)
    assert maintenance.plan_expiry(recovery).leftovers.work == ()
    assert maintenance.expire(recovery, "early").runs_removed == 0
    assert set(left) <= work(recovery)
    age(recovery, days=31, now=NOW)
    newer = leave(recovery, f"{SECOND}-append")
    for key in newer:
        os.utime(root(recovery).parent / key, (NOW / 1000 - 86_400,) * 2)
    planned = maintenance.plan_expiry(recovery)
    size = sum(recovery.repository.size(key) or 0 for key in left)
    assert [(one.run, set(one.keys), one.bytes) for one in planned.leftovers.work] == [(SECOND, set(left), size)]
    assert "The work of 1 runs that are over goes" in maintenance.expiry_text(planned)
    assert maintenance.expire(recovery, "late", approved=planned.hash).runs_removed == 1
    assert work(recovery) == set(newer)
    assert sorted(path.name for path in (root(recovery) / "work").iterdir()) == [f"{SECOND}-append"]


def test_one_young_artifact_keeps_all_of_its_run(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    left = leave(recovery, SECOND)
    age(recovery, days=31, now=NOW)
    os.utime(root(recovery).parent / left[-1], (NOW / 1000 - 86_400,) * 2)
    assert maintenance.expire(recovery, "r").runs_removed == 0
    assert work(recovery) == set(left)


@pytest.mark.parametrize(
    ("phase", "kept"),
    [(phase, Phase.DESTROYING.rank <= phase.rank < Phase.CLOSED.rank) for phase in Phase],
)
def test_the_work_of_a_restore_stays_until_nobody_can_resume_it(golden: OpenGolden, phase: Phase, *, kept: bool) -> None:
    recovery = golden("good", now=NOW)
    left = leave(recovery, RESTORE)
    journal(recovery, phase)
    # A later restore that is over keeps nobody from asking what became of this one.
    journal(recovery, Phase.DESTROYING, Phase.CLOSED, of=LATER)
    age(recovery, days=400, now=NOW)
    report = maintenance.expire(recovery, "r")
    assert (report.runs_removed, work(recovery)) == ((0, set(left)) if kept else (1, set()))
    assert [one.run for one in report.plan.leftovers.kept] == [RESTORE] * kept
    said = f"The work of run {RESTORE} stays: the restore failed after {phase} and is not over." in maintenance.expiry_text(report.plan)
    assert said is kept


@pytest.mark.parametrize("torn", [True, False])
def test_the_work_of_a_restore_whose_journal_says_nothing_stays(golden: OpenGolden, *, torn: bool) -> None:
    recovery = golden("good", now=NOW)
    left = [*leave(recovery, RESTORE), recovery.artifacts.write_once(RESTORE, "restore-plan", NOTE).key]
    if torn:
        recovery.repository.create(f"{recovery.layout.journal(RESTORE)}000000000001.json", b"torn")
        # A later one that is over: expiry goes on.
        journal(recovery, Phase.DESTROYING, Phase.CLOSED, of=LATER)
    age(recovery, days=400, now=NOW)
    report = maintenance.expire(recovery, "r")
    assert (report.runs_removed, work(recovery)) == (0, set(left))
    assert [one.run for one in report.plan.leftovers.kept] == [RESTORE]
    found = checked(recovery, "structure").left_behind
    assert found is not None
    assert found.kept == report.plan.leftovers.kept


def test_no_work_goes_while_a_manifest_cannot_be_read(golden: OpenGolden) -> None:
    recovery = golden("torn-manifest", now=NOW)
    left = leave(recovery, SECOND)
    age(recovery, days=400, now=NOW)
    assert maintenance.expire(recovery, "r").runs_removed == 0
    assert work(recovery) == set(left)


def test_what_is_not_of_this_software_stays(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    leave(recovery, SECOND)
    strange = [f"{recovery.layout.artifacts}{name}" for name in ("notes.json", f"{SECOND}/notes.txt", f"{SECOND}/a/b.json", ".x/-y.json")]
    for key in strange:
        recovery.repository.create(key, b"mine")
    (root(recovery) / "segments" / "notes#1").write_bytes(b"mine")
    outside = root(recovery).parent / "elsewhere"
    outside.mkdir()
    (outside / "a.json#1").write_bytes(b"mine")
    (root(recovery) / "segments" / "link").symlink_to(outside)
    (root(recovery) / "segments" / "b.json#1").symlink_to(outside / "a.json#1")
    age(recovery, days=400, now=NOW)
    for path in (outside / "a.json#1", root(recovery) / "segments" / "b.json#1"):
        os.utime(path, (0, 0), follow_symlinks=False)
    report = maintenance.expire(recovery, "r")
    assert (report.runs_removed, report.staged_removed, report.left) == (1, 0, ())
    assert work(recovery) == set(strange)
    assert (outside / "a.json#1").exists()
    assert (root(recovery) / "segments" / "notes#1").exists()


def test_files_of_killed_writers_go_after_the_grace_period(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    segment = next(iter((root(recovery) / "segments").rglob("*.parquet")))
    staged = [segment.with_name(f"{segment.name}#1"), root(recovery) / "locks" / "000000000001.json#12"]
    (root(recovery) / "locks").mkdir(exist_ok=True)
    # Killed between the two: a second name of a file that is there.
    staged[0].hardlink_to(segment)
    staged[1].write_bytes(b"half")
    keys = sorted(path.relative_to(root(recovery).parent).as_posix() for path in staged)
    age(recovery, days=6, now=NOW)
    assert maintenance.plan_expiry(recovery).leftovers.staged == ()
    age(recovery, days=8, now=NOW)
    planned = maintenance.plan_expiry(recovery)
    assert [file.key for file in planned.leftovers.staged] == keys
    assert "2 files of writers that were killed, or that drills have placed anew, go" in maintenance.expiry_text(planned)
    assert said(checked(recovery, "structure")) == [
        f"the next expiry removes 2 files of writers that were killed, with {segment.stat().st_size + 4:,} bytes, such as {', '.join(keys)}"
    ]
    report = maintenance.expire(recovery, "r", approved=planned.hash)
    assert (report.staged_removed, report.left) == (2, ())
    assert not any(path.exists() for path in staged)
    assert segment.exists()
    assert checked(recovery, "full").good


def said(report: CheckReport) -> list[str]:
    assert report.left_behind is not None
    assert report.good
    return list(report.left_behind.lines())


def test_a_check_says_what_expiry_would_remove_and_stays_good(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    assert said(checked(recovery, "structure")) == []
    for number in range(5):
        leave(recovery, f"2026111{number}T010000Z-0000000009")
    journal(recovery, Phase.LOADED)
    leave(recovery, RESTORE)
    age(recovery, days=31, now=NOW)
    told, kept = said(checked(recovery, "structure"))
    assert told.startswith("the next expiry removes the work of 6 runs that are over, with ")
    assert told.endswith(" bytes, such as 20261110T010000Z-0000000009, 20261111T010000Z-0000000009, 20261112T010000Z-0000000009")
    assert kept == f"the work of run {RESTORE} stays: the restore failed after loaded and is not over"
    assert checked(recovery, "structure", SECOND).left_behind is None


def test_work_that_may_not_be_removed_is_named_once_a_run(golden: OpenGolden) -> None:
    class KeepsWork(Repository):
        def delete(self, keys: list[str], **more: bool) -> None:
            if keys[0].startswith(recovery.layout.artifacts):
                raise ConfigInvalid("deleting is not allowed", next_step="correct the rights")
            super().delete(keys, **more)

    recovery = golden("good", now=NOW)
    left = leave(recovery, SECOND)
    age(recovery, days=31, now=NOW)
    report = maintenance.expire(on(recovery, KeepsWork(recovery.repository.location)), "r")
    assert report.runs_removed == 0
    assert report.left == (f"{min(left)}: deleting is not allowed",)


def test_a_run_that_lost_the_lock_to_an_expiry_cannot_go_on(golden: OpenGolden) -> None:
    """What makes the age enough for runs that need the lock."""
    recovery = golden("good", now=NOW)
    ticket = recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="savepoint")
    later = golden("good", now=NOW + 3_600_000)
    maintenance.expire(later, "r")
    assert not later.lock.holds(ticket)


@pytest.mark.parametrize("kind", ["status", "alerts", "inspections"])
def test_logs_that_their_writers_may_not_shorten_are_shortened_by_expiry(golden: OpenGolden, kind: str) -> None:
    recovery = golden("good", now=NOW)
    prefix: str = getattr(recovery.layout, kind)
    for number in range(1, 121):
        recovery.repository.create(f"{prefix}{number:012}.json", b"{}")
    assert maintenance.expire(recovery, "r").left == ()
    assert [int(Path(key).stem) for key in recovery.repository.keys(prefix)] == list(range(71, 121))


def test_a_log_that_cannot_be_shortened_keeps_no_other_from_it(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    for number in (1, 3):
        recovery.repository.create(f"{recovery.layout.quiesce_records}{number:012}.json", b"{}")
    for number in range(1, 61):
        recovery.repository.create(f"{recovery.layout.alerts}{number:012}.json", b"{}")
    (left,) = maintenance.expire(recovery, "r").left
    assert left.startswith("old records of quiesce: ")
    assert len(list(recovery.repository.keys(recovery.layout.alerts))) == 50
    assert AppendLog(recovery.repository, recovery.layout.locks, LockRecord).last() is not None


def with_drills(recovery: RecoveryContext, application_id: str, *, enabled: bool = True) -> RecoveryContext:
    drill = Drill.model_construct(enabled=enabled, application_id=application_id)
    return replace(recovery, config=recovery.config.model_copy(update={"drill": drill}))


def test_what_drills_have_left_goes_unless_one_runs(golden: OpenGolden) -> None:
    recovery = with_drills(golden("good", now=NOW), "golden-drill")
    drills = drills_of(recovery)
    assert drills is not None
    over, unfinished = RESTORE, LATER
    plan = replace(PLAN, application_id="golden-drill", source_application_id="golden", create=())
    kept = [*leave(drills, over), *leave(drills, unfinished), drills.artifacts.write_once(unfinished, "restore-plan", plan).key]
    for restore_id, phase in ((over, Phase.CLOSED), (unfinished, Phase.LOADED)):
        journal(drills, phase, of=restore_id)
    for path in (root(recovery).parent / "golden-drill").rglob("*.json"):
        os.utime(path, (NOW / 1000 - 31 * 86_400,) * 2)
    assert maintenance.expire(golden("good", now=NOW), "without drills").runs_removed == 0
    running = drills.lock.acquire("drill r", lease_seconds=60, purpose="drill")
    report = maintenance.expire(recovery, "r1")
    assert ([one.run for one in report.plan.leftovers.work], report.runs_removed, report.left) == ([over], 0, ())
    assert work(drills) == set(kept)
    drills.lock.release(running)
    report = maintenance.expire(recovery, "r2")
    assert (report.runs_removed, report.left) == (1, ())
    assert [one.run for one in report.plan.leftovers.kept] == [unfinished]
    assert work(drills) == {key for key in kept if unfinished in key}
    assert drills.lock.holder() is None
    drills.repository.create(f"{drills.layout.locks}{9:012}.json", b"torn")
    (left,) = maintenance.expire(recovery, "r3").left
    assert left.startswith("what drills have left: ")
    # Nor is what a drill has placed anew touched.
    placed = f"{drills.layout.segments}kept.parquet"
    drills.repository.create(placed, b"placed")
    os.utime(root(recovery).parent / placed, (NOW / 1000 - 31 * 86_400,) * 2)
    assert maintenance.expire(recovery, "r4").staged_removed == 0


def test_a_data_key_goes_with_the_last_file_that_is_named_by_it(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    secret = base64.b64encode(bytes(32)).decode()
    access = KeyAccess(places=(KeyPlace(provider="local", address="", options={"secret": secret}),))
    old, used, young = (NOW // 1000 - days * 86_400 for days in (9, 10, 7))
    made = [Keyring(recovery.repository, access, lambda at=at: at).writing("golden").key_id for at in (old, used, young)]
    segment = f"{recovery.layout.segments}t/00000/{'0' * 20}-a.{made[1]}.parquet"
    recovery.repository.create(segment, b"encrypted")
    age(recovery, days=30, now=NOW)
    os.utime(root(recovery).parent / segment, (NOW / 1000,) * 2)
    planned = maintenance.plan_expiry(recovery)
    assert [file.key for file in planned.leftovers.keys] == [recovery.layout.wrapped_key(made[0], 1)]
    assert "1 data keys go that nothing is encrypted with any more" in maintenance.expiry_text(planned)
    report = maintenance.expire(recovery, "r1", approved=planned.hash)
    assert (report.keys_removed, report.left) == (1, ())
    ring = Keyring(recovery.repository, access)
    assert ring.ids("golden") == sorted(made[1:])
    # The file goes, and behind it the key.
    age(recovery, days=30, now=NOW)
    assert maintenance.expire(recovery, "r2").keys_removed == 0
    assert maintenance.expire(recovery, "r3").keys_removed == 1
    assert ring.ids("golden") == [made[2]]


def test_while_a_file_is_missing_that_may_be_brought_back_no_data_key_goes(golden: OpenGolden) -> None:
    recovery = golden("good", now=NOW)
    recovery.repository.create(recovery.layout.wrapped_key(f"k{1:08x}00000000", 1), b"{}")
    age(recovery, days=30, now=NOW)
    assert len(maintenance.plan_expiry(recovery).leftovers.keys) == 1
    next(path for path in (root(recovery) / "segments").rglob("*.parquet")).unlink()
    assert maintenance.plan_expiry(recovery).leftovers.keys == ()


@pytest.mark.parametrize("kind", ["savepoints", "safety", "published", "expired", "archive"])
def test_what_a_drill_has_placed_goes_after_the_grace_period_and_never_where_an_application_was(golden: OpenGolden, kind: str) -> None:
    recovery = with_drills(golden("good", now=NOW), "golden-drill")
    placed = "golden-drill/segments/one.parquet"
    recovery.repository.create(placed, b"placed")
    for days, gone in ((6, []), (8, [placed])):
        os.utime(root(recovery).parent / placed, (NOW / 1000 - days * 86_400,) * 2)
        assert [file.key for file in maintenance.plan_expiry(recovery).leftovers.staged] == gone
    key = f"golden-drill/keys/{new_key_id(NOW // 1000 - 30 * 86_400)}/{1:012}.json"
    recovery.repository.create(key, b"wrapped")
    os.utime(root(recovery).parent / key, (NOW / 1000 - 30 * 86_400,) * 2)
    assert [file.key for file in maintenance.plan_expiry(recovery).leftovers.keys] == [key]
    recovery.repository.create(f"golden-drill/{kind}/one", b"of an application of its own")
    report = maintenance.expire(recovery, "r")
    assert (report.staged_removed, report.keys_removed) == (0, 0)
    assert all((root(recovery).parent / one).exists() for one in (placed, key))
    assert not any(recovery.repository.keys("golden-drill/locks/")), "nothing of that application is touched"


@pytest.mark.parametrize(("application_id", "enabled"), [("golden", True), ("golden-drill", False)])
def test_drills_that_are_off_or_not_apart_are_passed_over(golden: OpenGolden, application_id: str, *, enabled: bool) -> None:
    assert drills_of(with_drills(golden("good", now=NOW), application_id, enabled=enabled)) is None


def test_a_manifest_that_vanished_is_lost_and_an_expired_one_is_not(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    path = third(recovery)
    assert checked(recovery, "structure").good
    path.unlink()
    report = checked(recovery, "structure")
    (lost,) = report.findings
    assert (lost.cause, lost.savepoints, lost.key) == (Cause.LOST_MANIFEST, (THIRD,), recovery.layout.manifest(THIRD))
    assert "was published and has not expired" in lost.problem
    assert (report.exit_code, report.savepoints, report.files) == (28, 2, 4), "the others were checked"
    with pytest.raises(Damaged, match="put it back"):
        maintenance.raise_unless_good(report)
    (alone,) = checked(recovery, "structure", THIRD).findings
    assert alone == lost
    assert checked(recovery, "structure", SECOND).good, "another one is whole"
    third(recovery)
    recovery.savepoints.retire(THIRD, at=SECOND_AT)
    path.unlink()
    assert checked(recovery, "structure").good


def test_when_every_manifest_vanished_that_is_what_is_said(golden: OpenGolden) -> None:
    recovery = golden("no-manifest")
    good = golden("good", place="whole")
    recovery.savepoints.publish(good.savepoints.read(FIRST))
    path_of(recovery, recovery.layout.manifest(FIRST)).unlink()
    report = checked(recovery, "full")
    assert report.causes == (Cause.LOST_MANIFEST, Cause.NOTHING_CHECKED)


def test_nothing_expires_by_a_manifest_that_is_lost(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    path = third(recovery)
    orphan = path_of(recovery, "golden/segments/golden-totals-changelog/0/orphan.parquet")
    orphan.write_bytes(b"the lost manifest might have named it")
    age(recovery, days=1000, now=SECOND_AT)
    kept = path.read_bytes()
    path.unlink()
    report = maintenance.expire(recovery, "r1")
    assert f"{THIRD} (lost)" in str(report.plan.blocked)
    assert orphan.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(kept)
    maintenance.expire(recovery, "r2")
    assert not orphan.exists()


def test_the_record_of_an_expired_savepoint_goes_before_its_copy(golden: OpenGolden) -> None:
    class KeepsRecords(Repository):
        def delete(self, keys: list[str], **_: bool) -> None:
            for key in keys:
                if "/published/" in key:
                    raise ConfigInvalid(f"{key} is locked until next year", next_step="wait")
                super().delete([key])

    recovery = golden("good", now=SECOND_AT)
    path = third(recovery)
    recovery.savepoints.retire(THIRD, at=SECOND_AT - 8 * DAY_MS)
    path.unlink()
    age(recovery, days=8, now=SECOND_AT)
    report = maintenance.expire(on(recovery, KeepsRecords(recovery.repository.location)), "r1")
    assert len(report.left) == 1
    assert THIRD in recovery.savepoints.copies()
    assert checked(recovery, "structure").good, "half forgotten is not lost"
    later = golden("good", now=SECOND_AT + 3_600_000)
    maintenance.expire(later, "r2")
    assert THIRD not in later.savepoints.copies()
    assert later.savepoints.published() == []
    assert checked(later, "structure").good


def test_marks_and_unfinished_restores_prove_that_a_savepoint_must_be_there(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="quarter's end")
    path_of(recovery, recovery.layout.manifest(FIRST)).unlink()
    (lost,) = checked(recovery, "structure").findings
    assert (lost.savepoints, "is pinned" in lost.problem) == ((FIRST,), True)
    maintenance.pin(recovery, FIRST, keep=False, requested_by="me", reason="given up")
    assert checked(recovery, "structure").good
    with pytest.raises(NotFound):
        maintenance.pin(recovery, FIRST, keep=False, requested_by="me", reason="not marked any more")
    unfinished(recovery, savepoint_id=FIRST)
    (lost,) = checked(recovery, "structure").findings
    assert (lost.savepoints, "unfinished restore" in lost.problem) == ((FIRST,), True)


ANOTHER_RESTORE = "20261121T030000Z-00000000aa"


def unfinished(recovery: RecoveryContext, *, source: str = "golden", **needs: object) -> None:
    """A restore of what the application ``source`` has saved, that failed behind its load."""
    planned = replace(PLAN, application_id="golden", source_application_id=source, create=(), **needs)  # type: ignore[arg-type]
    recovery.artifacts.write_once(ANOTHER_RESTORE, "restore-plan", planned)
    journal(recovery, Phase.LOADED, of=ANOTHER_RESTORE)


def test_so_does_a_rebuild_of_the_savepoint_that_its_inputs_come_from(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    unfinished(recovery, savepoint_id=None, part=RebuildPart(inputs_from=FIRST))
    assert checked(recovery, "structure").good
    path_of(recovery, recovery.layout.manifest(FIRST)).unlink()
    (lost,) = checked(recovery, "structure").findings
    assert (lost.savepoints, "unfinished restore" in lost.problem) == ((FIRST,), True)


def test_what_a_restore_takes_of_another_application_is_in_its_own_repository_there(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    unfinished(recovery, source="orders")
    assert checked(recovery, "structure").good
    assert maintenance.plan_expiry(recovery).blocked is None


@pytest.mark.fault("F11")
def test_a_manifest_that_was_edited_well_is_still_not_what_was_published(golden: OpenGolden) -> None:
    recovery = golden("good")
    path = third(recovery)
    plain = json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
    next(topic for topic in plain["topics"] if topic["role"] == "input")["partitions"][0]["committed"]["offset"] += 1
    path.write_bytes(zstandard.ZstdCompressor(level=9, write_checksum=True).compress(json.dumps(plain).encode()))
    assert recovery.savepoints.read(THIRD).savepoint_id == THIRD, "it can be read all the same"
    (found,) = checked(recovery, "structure").findings
    assert (found.cause, found.savepoints, found.problem) == (Cause.DAMAGED_MANIFEST, (THIRD,), "is not what was published")
    path_of(recovery, recovery.layout.published(THIRD)).write_bytes(b"{}")
    (found,) = checked(recovery, "structure").findings
    assert (found.cause, found.key) == (Cause.DAMAGED_RECORD, recovery.layout.published(THIRD))


@pytest.mark.parametrize("log", ["locks", "quiesce-records", "holds", "pins", "journal", "offsets"])
@pytest.mark.parametrize("damage", ["hole", "torn", "strange"])
def test_every_log_is_looked_through(golden: OpenGolden, log: str, damage: str) -> None:
    recovery = golden("good", now=SECOND_AT)
    prefix = logs(recovery)[log]
    whole = checked(recovery, "structure")
    assert whole.good
    assert whole.records == 6 + 3 + 3 + 3 + 3 + 3, "what was read is counted"
    second = path_of(recovery, f"{prefix}000000000002.json")
    if damage == "hole":
        second.unlink()
    elif damage == "torn":
        second.write_bytes(second.read_bytes()[:-5])
    else:
        second.with_name("notes.txt").write_bytes(b"somebody was here")
    report = checked(recovery, "structure")
    (found,) = report.findings
    assert found.cause is Cause.DAMAGED_RECORD
    assert found.key == (f"{prefix}notes.txt" if damage == "strange" else f"{prefix}000000000002.json")
    assert (report.savepoints, report.files) == (2, 4)
    assert checked(recovery, "structure", SECOND).good, "no log is asked about one savepoint"


def test_logs_that_expiry_shortens_may_begin_anywhere_and_no_others(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    prefixes = logs(recovery)
    for name in prefixes:
        path_of(recovery, f"{prefixes[name]}000000000001.json").unlink()
    assert {found.key for found in checked(recovery, "structure").findings} == {
        f"{prefixes[name]}000000000001.json" for name in ("holds", "pins", "journal", "offsets")
    }


def test_old_entries_are_read_by_a_full_check_only(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    for number in range(30):
        hold(recovery, number)
    path_of(recovery, f"{recovery.layout.holds}000000000003.json").write_bytes(b"x")
    assert checked(recovery, "structure").records == 20
    report = checked(recovery, "full")
    assert (report.records, report.causes) == (30, (Cause.DAMAGED_RECORD,))
