"""Expiry on a real directory: killed at any call, it has harmed nothing; and by a clock that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from streams_recovery.core.errors import ConfigInvalid, LockHeld, NotFound
from streams_recovery.core.kafka_types import Consistency, TopicRole
from streams_recovery.core.repository.journal import JournalEntry, Phase, RestoreScope
from streams_recovery.core.repository.manifest import PartitionImage
from streams_recovery.core.repository.ranges import Ranges
from streams_recovery.core.repository.retention import DAY_MS, Pin
from streams_recovery.core.words import new_id
from streams_recovery.operations import maintenance
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.offsets import snapshots
from streams_recovery.operations.restore.strategies import Undo
from streams_recovery.operations.unfinished import dismiss, needed_savepoints, pin_log
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, T0, OpenGolden, age, checked, on, root

THIRD = "20261121T000000Z-0000000003"


class Killed(BaseException):
    """Nothing catches this, as nothing catches SIGKILL."""


class Dying(Repository):
    """A real repository whose process dies at its n-th change, before it or right after it."""

    def __init__(self, real: Repository, at: int, *, after: bool) -> None:
        super().__init__(real.location)
        self.left, self.after = at, after

    def _change(self, change: Callable[[], None]) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        change()
        if self.left == 0:
            raise Killed

    def create(self, key: str, data: bytes, *, previous: str | None = None) -> None:
        self._change(lambda: Repository.create(self, key, data, previous=previous))

    def delete(self, keys: list[str], **more: bool) -> None:
        self._change(lambda: Repository.delete(self, keys, **more))


class WithoutDelete(Repository):
    """A bucket whose writer may not delete."""

    def delete(self, keys: list[str], **_: bool) -> None:
        raise ConfigInvalid(f"deleting {keys[0]} is not allowed", next_step="correct the rights")


def segments(recovery: RecoveryContext) -> set[str]:
    return {path.name for path in (root(recovery) / "segments").rglob("*.parquet")}


def test_the_plan_says_why_and_touches_nothing(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    before = sorted(path for path in root(recovery).rglob("*"))
    plan = maintenance.plan_expiry(recovery)
    assert [(d.savepoint_id, d.why_kept) for d in plan.keep] == [(SECOND, ("last", "minimum"))]
    assert [d.savepoint_id for d in plan.expire] == [FIRST]
    assert plan.files == ()
    assert sorted(path for path in root(recovery).rglob("*")) == before
    text = maintenance.expiry_text(plan)
    assert f"| {SECOND} | 2026-11-21 01:00:00 UTC | no | stays: last, minimum |" in text
    assert f"| {FIRST} | 2026-11-21 00:00:00 UTC | no | **expires** |" in text


def test_the_plan_says_of_each_whether_it_survives_the_loss_of_the_cluster(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    first = recovery.savepoints.read(FIRST)
    without_inputs = tuple(topic for topic in first.topics if topic.role is TopicRole.REPARTITION)
    recovery.savepoints.publish(replace(first, savepoint_id=THIRD, topics=without_inputs))
    plan = maintenance.plan_expiry(recovery)
    told = {one.savepoint_id: one.survives_cluster_loss for one in (*plan.keep, *plan.expire)}
    assert told == {FIRST: False, SECOND: False, THIRD: True}
    assert f"| {THIRD} | 2026-11-21 00:00:00 UTC | yes | " in maintenance.expiry_text(plan)


def test_a_savepoint_goes_at_once_and_its_files_when_nobody_can_want_them_back(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    recovery.savepoints.retire(SECOND, at=SECOND_AT - 8 * DAY_MS)
    recovery.repository.delete([recovery.layout.manifest(SECOND)])
    only_second = {"00000000000000000040-00000000000000000055-golden.parquet", "00000000000000000017-00000000000000000021-golden.parquet"}
    age(recovery, days=6, now=SECOND_AT)
    assert maintenance.expire(recovery, "early").files_removed == 0, "young files may belong to a savepoint in the making"
    age(recovery, days=8, now=SECOND_AT)
    report = maintenance.expire(recovery, "late")
    assert (report.files_removed, report.left) == (4, ()), "its segments, and the range tables that only it names"
    assert segments(recovery) & only_second == set()
    assert checked(recovery, "full").good, "what the savepoint that stays needs is all there"
    assert list(recovery.repository.keys(recovery.layout.retired_prefix)) == []


def test_old_files_of_a_savepoint_that_expired_yesterday_can_still_be_wanted_back(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    recovery.savepoints.retire(SECOND, at=SECOND_AT - 100 * DAY_MS)
    newest = recovery.savepoints.retire(SECOND, at=SECOND_AT - DAY_MS)
    recovery.repository.delete([recovery.layout.manifest(SECOND)])
    age(recovery, days=1000, now=SECOND_AT)
    os.utime(root(recovery).parent / newest, (SECOND_AT / 1000 - 86_400,) * 2)
    before = segments(recovery)
    assert maintenance.expire(recovery, "r").files_removed == 0
    assert segments(recovery) == before


def test_files_that_could_not_go_keep_the_record_of_whose_they_are(golden: OpenGolden) -> None:
    class KeepsSegments(Repository):
        def delete(self, keys: list[str], **more: bool) -> None:
            if "/segments/" in keys[0]:
                raise ConfigInvalid(f"{keys[0]} is locked until next year", next_step="wait")
            super().delete(keys, **more)

    recovery = golden("good", now=SECOND_AT)
    recovery.savepoints.retire(SECOND, at=SECOND_AT - 8 * DAY_MS)
    recovery.repository.delete([recovery.layout.manifest(SECOND)])
    age(recovery, days=30, now=SECOND_AT)
    report = maintenance.expire(on(recovery, KeepsSegments(recovery.repository.location)), "r")
    assert (report.files_removed, len(report.left)) == (2, 2)
    assert len(list(recovery.repository.keys(recovery.layout.retired_prefix))) == 1


@pytest.mark.fault("F17")
def test_a_file_that_a_kept_savepoint_names_never_goes(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    age(recovery, days=1000, now=SECOND_AT)
    report = maintenance.expire(recovery, "r")
    assert report.expired == (FIRST,)
    assert report.files_removed == 0
    assert recovery.savepoints.ids() == [SECOND]
    assert checked(recovery, "full").good


def test_a_marked_savepoint_stays_until_it_is_released(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="check")
    assert maintenance.expire(recovery, "r1").expired == ()
    released = maintenance.pin(recovery, FIRST, keep=False, requested_by="me", reason="done")
    age(recovery, days=8, now=SECOND_AT)
    assert not released.kept
    assert maintenance.expire(recovery, "r2").expired == (FIRST,)
    with pytest.raises(NotFound):
        maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="too late")


@pytest.mark.fault("F63")
@pytest.mark.parametrize("at", [0, SECOND_AT, 1 << 62])
def test_a_forged_release_of_a_pin_is_told_and_takes_nothing_before_a_person_can_pin_again(golden: OpenGolden, at: int) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="check")
    pin_log(recovery).append(Pin(savepoint_id=FIRST, keep=False, at=at, requested_by="me", reason="check"))
    age(recovery, days=6, now=SECOND_AT)
    plan = maintenance.plan_expiry(recovery)
    assert plan.expire == ()
    assert f"pins of {FIRST} were released" in maintenance.expiry_text(plan)
    assert maintenance.expire(recovery, "early").expired == (), "whatever time the release names"
    assert maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="it was forged").until is None
    age(recovery, days=1000, now=SECOND_AT)
    assert maintenance.expire(recovery, "late").expired == ()


@pytest.mark.parametrize("name", ["torn-manifest", "future-format"])
def test_no_file_goes_while_a_manifest_cannot_be_read(golden: OpenGolden, name: str) -> None:
    recovery = golden(name, now=SECOND_AT)
    age(recovery, days=1000, now=SECOND_AT)
    before = segments(recovery)
    report = maintenance.expire(recovery, "r")
    assert (report.expired, report.files_removed) == ((), 0)
    assert SECOND in str(report.plan.blocked)
    assert segments(recovery) == before


def test_no_file_goes_while_the_copy_of_an_expired_manifest_cannot_be_read(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    maintenance.expire(recovery, "r1")
    (root(recovery).parent / recovery.layout.retired(FIRST, SECOND_AT)).write_bytes(b"torn")
    (root(recovery) / "expired" / "strange").write_bytes(b"somebody's notes")
    (root(recovery) / "segments" / "golden-totals-changelog" / "0" / "orphan.parquet").write_bytes(b"x")
    age(recovery, days=1000, now=SECOND_AT)
    report = maintenance.expire(recovery, "r2")
    assert f"{FIRST} (expired)" in str(report.plan.blocked)
    assert report.files_removed == 0


def test_what_tells_whose_files_are_stays_while_they_cannot_go(golden: OpenGolden) -> None:
    recovery = golden("torn-manifest", now=SECOND_AT)
    old = "20261001T000000Z-0000000009"
    plain = replace(recovery.savepoints.read(FIRST), savepoint_id=old)
    recovery.savepoints.publish(plain)
    recovery.savepoints.retire(old, at=SECOND_AT - 50 * DAY_MS)
    recovery.repository.delete([recovery.layout.manifest(old)])
    age(recovery, days=50, now=SECOND_AT)
    report = maintenance.expire(recovery, "r")
    assert report.plan.forget == (old,)
    assert report.plan.blocked is not None
    assert list(recovery.repository.keys(recovery.layout.retired_prefix)) == [recovery.layout.retired(old, SECOND_AT - 50 * DAY_MS)]


def test_a_savepoint_that_a_killed_expiry_only_copied_exists_and_is_whole(golden: OpenGolden) -> None:
    recovery = golden("torn-manifest", now=SECOND_AT)
    recovery.repository.create(recovery.layout.retired(SECOND, SECOND_AT), b"torn too")
    plan = maintenance.plan_expiry(recovery)
    assert [decision.savepoint_id for decision in plan.keep] == [FIRST]
    assert (plan.expire, plan.files) == ((), ())
    assert SECOND in str(plan.blocked)


def test_without_the_right_to_delete_everything_stays_and_is_named(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    report = maintenance.expire(on(recovery, WithoutDelete(recovery.repository.location)), "r")
    assert report.expired == ()
    assert len(report.left) == 1
    assert FIRST in report.left[0]
    assert recovery.savepoints.ids() == [FIRST, SECOND]
    assert recovery.lock.holder() is None


def test_many_files_that_cannot_go_do_not_fill_the_log_of_the_lock(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    for number in range(40):
        (root(recovery) / "segments" / "golden-totals-changelog" / "0" / f"orphan-{number}.parquet").write_bytes(b"x")
    age(recovery, days=30, now=SECOND_AT)
    report = maintenance.expire(on(recovery, WithoutDelete(recovery.repository.location)), "r")
    assert len(report.left) == 41
    assert len(list(recovery.repository.keys(recovery.layout.locks))) < 10


def test_a_savepoint_with_missing_files_is_kept_but_does_not_count(golden: OpenGolden) -> None:
    recovery = golden("missing-segment", now=SECOND_AT)
    plan = maintenance.plan_expiry(recovery)
    assert {decision.savepoint_id: decision.why_kept for decision in plan.keep} == {
        SECOND: ("damaged: check it",),
        FIRST: ("last", "minimum"),
    }


@pytest.mark.parametrize(("phase", "kept"), [(Phase.STOPPED, False), (Phase.DESTROYING, True), (Phase.LOADED, True), (Phase.CLOSED, False)])
@pytest.mark.parametrize("scope", RestoreScope)
def test_the_savepoint_of_a_restore_that_broke_off_stays(golden: OpenGolden, phase: Phase, scope: RestoreScope, *, kept: bool) -> None:
    recovery = golden("good", now=SECOND_AT)
    restore_id = "20261121T020000Z-00000000aa"
    plan = replace(PLAN, application_id="golden", source_application_id="golden", create=(), savepoint_id=FIRST)
    recovery.artifacts.write_once(restore_id, "restore-plan", plan)
    AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry).append(
        JournalEntry(phase=phase, at=SECOND_AT, created=(), scope=scope)
    )
    assert maintenance.expire(recovery, "r").expired == (() if kept else (FIRST,))


def test_the_savepoints_of_all_unfinished_copies_and_of_the_restore_beside_them_stay(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    plan = replace(PLAN, application_id="golden", source_application_id="golden", create=())
    ids = [new_id(SECOND_AT - 1000 * (3 - number), f"run-{number}") for number in range(3)]
    for number, (scope, needed) in enumerate([(RestoreScope.COPIES, FIRST), (RestoreScope.COPIES, None), (RestoreScope.STATE, SECOND)]):
        restore_id = ids[number]
        recovery.artifacts.write_once(restore_id, "restore-plan", replace(plan, savepoint_id=needed))
        journal = AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry)
        journal.append(JournalEntry(phase=Phase.LOADED, at=SECOND_AT, created=(), scope=scope))
        if scope is RestoreScope.COPIES:
            recovery.repository.create(f"{recovery.layout.journal(restore_id)}{2:012}.json", b"junk")
    assert needed_savepoints(recovery) == {FIRST, SECOND}, "also by a journal of which the newest entry cannot be read"
    for restore_id in ids[:2]:
        dismiss(recovery, restore_id)
    assert needed_savepoints(recovery) == {SECOND}


def kept_safe(recovery: RecoveryContext, restore_id: str) -> str:
    """A safety savepoint like the older savepoint, but with one file of its own, taken before the restore of this id."""
    older = recovery.savepoints.read(FIRST)
    shared = next(file.key for _, file in older.files())
    own = shared.replace(".parquet", "-own.parquet")
    recovery.repository.create(own, recovery.repository.get(shared))

    def with_own(image: PartitionImage) -> PartitionImage:
        pieces = [
            replace(piece, file=replace(piece.file, key=own)) if piece.file and piece.file.key == shared else piece
            for piece in image.ranges
        ]
        return replace(image, ranges=Ranges.of(pieces)) if pieces != list(image.ranges) else image

    saved = replace(
        older,
        topics=tuple(replace(topic, partitions=tuple(map(with_own, topic.partitions))) for topic in older.topics),
        savepoint_id=new_id(older.captured_at, restore_id),
        consistency=Consistency.DAMAGED,
        provenance=replace(older.provenance, run_id=restore_id),
    )
    recovery.safety.publish(saved)
    return saved.savepoint_id


@pytest.mark.parametrize(("days", "unfinished", "stays"), [(29, False, True), (31, False, False), (31, True, True)])
def test_a_safety_savepoint_keeps_its_files_until_nobody_will_go_back(
    golden: OpenGolden, days: int, *, unfinished: bool, stays: bool
) -> None:
    restore_id = "20261121T020000Z-00000000aa"
    captured = golden("good").savepoints.read(FIRST).captured_at
    recovery = golden("good", now=captured + days * DAY_MS)
    saved = kept_safe(recovery, restore_id)
    if unfinished:
        recovery.artifacts.write_once(restore_id, "restore-plan", replace(PLAN, savepoint_id=SECOND))
        entry = JournalEntry(phase=Phase.LOADED, at=SECOND_AT, created=())
        AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry).append(entry)
    needed = {file.key for _, file in recovery.safety.read(saved).files()}
    age(recovery, days=60, now=captured + days * DAY_MS)
    report = maintenance.expire(recovery, "first")
    assert (recovery.safety.ids(), report.expired) == (([saved], (FIRST,)) if stays else ([], (FIRST, saved)))
    assert report.files_removed == 0, "within the grace period nothing goes"
    later = golden("good", now=captured + (days + 8) * DAY_MS)
    later_report = maintenance.expire(later, "second")
    assert later_report.files_removed == (0 if stays else 2), "its own segment, and its own range table"
    assert all(later.repository.size(key) is not None for key in needed) is stays
    assert later_report.expired == ((saved,) if stays and not unfinished else ())


def test_the_way_back_of_a_restore_stays_while_one_that_took_over_from_it_is_half_way(golden: OpenGolden) -> None:
    first, second = "20261121T020000Z-00000000aa", "20261121T030000Z-00000000bb"
    recovery = golden("good", now=golden("good").savepoints.read(FIRST).captured_at + 31 * DAY_MS)
    saved = kept_safe(recovery, first)
    for restore_id in (first, second):
        recovery.artifacts.write_once(restore_id, "restore-plan", replace(PLAN, savepoint_id=SECOND))
        entry = JournalEntry(phase=Phase.LOADED, at=SECOND_AT, created=())
        AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry).append(entry)
    maintenance.expire(recovery, "r")
    assert recovery.safety.ids() == [saved]
    dismiss(recovery, second)
    maintenance.expire(recovery, "r")
    assert recovery.safety.ids() == []


@pytest.mark.parametrize("later", [None, RestoreScope.STATE, RestoreScope.COPIES])
def test_an_undo_of_the_latest_says_when_the_last_restore_has_no_way_back(golden: OpenGolden, later: RestoreScope | None) -> None:
    first, second = "20261121T020000Z-00000000aa", "20261121T030000Z-00000000bb"
    recovery = golden("good", now=SECOND_AT)
    kept_safe(recovery, first)
    for restore_id, scope in ((first, RestoreScope.STATE), *(() if later is None else ((second, later),))):
        for phase in (Phase.LOADED, Phase.CLOSED):
            entry = JournalEntry(phase=phase, at=SECOND_AT, created=(), scope=scope)
            AppendLog(recovery.repository, recovery.layout.journal(restore_id), JournalEntry).append(entry)
    warned = Undo(reason="", allow_damaged=True).resolve(recovery).warnings
    assert [second in one and first in one for one in warned] == ([True] if later is RestoreScope.STATE else [])
    assert Undo(restore_id=first, reason="", allow_damaged=True).resolve(recovery).warnings == ()


def test_a_safety_savepoint_that_cannot_be_read_keeps_every_file(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + 20 * DAY_MS)
    saved = kept_safe(recovery, "r")
    (root(recovery) / "safety" / saved / "manifest.json.zst").write_bytes(b"torn")
    assert saved in str(maintenance.plan_expiry(recovery).blocked)


def test_only_the_holder_of_the_lock_expires(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    recovery.lock.acquire("savepoint r", lease_seconds=60, purpose="savepoint")
    with pytest.raises(LockHeld):
        maintenance.expire(recovery, "r")
    with pytest.raises(LockHeld):
        maintenance.pin(recovery, FIRST, keep=True, requested_by="me", reason="not now")
    assert recovery.savepoints.ids() == [FIRST, SECOND]


@pytest.mark.fault("F17")
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_change_it_has_harmed_nothing_and_the_next_one_finishes(golden: OpenGolden, *, after: bool) -> None:
    now, moment, killed = SECOND_AT + 20 * DAY_MS, 0, 0
    while True:
        moment += 1
        recovery = golden("good", place=f"killed-{after}-{moment}", now=now)
        # One savepoint to expire, one expired long ago with files that are due.
        orphan = root(recovery) / "segments" / "golden-totals-changelog" / "0" / "orphan.parquet"
        orphan.write_bytes(b"of a task that nobody waited for")
        age(recovery, days=30, now=now)
        dying = on(recovery, Dying(recovery.repository, moment, after=after))
        try:
            maintenance.expire(dying, "first")
        except Killed:
            killed += 1
        else:
            break
        assert SECOND in recovery.savepoints.ids()
        assert checked(recovery, "full", SECOND).good, f"killed at change {moment}"
        later = golden("good", place=f"killed-{after}-{moment}", now=now + 2 * 3_600_000)
        maintenance.expire(later, "second")
        assert later.savepoints.ids() == [SECOND]
        assert not orphan.exists()
        assert checked(later, "full").good
    assert killed >= 5, "every change was a moment to die at"


def test_the_offset_snapshot_of_an_expired_savepoint_goes_with_it_and_others_stay(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + 20 * DAY_MS)
    by_hand = "20261121T030000Z-0000000009"
    for snapshot_id in (FIRST, SECOND, by_hand):
        recovery.repository.create(f"{recovery.layout.offset_snapshot(snapshot_id)}000000000001.json", b"{}")
    age(recovery, days=30, now=SECOND_AT + 20 * DAY_MS)
    maintenance.expire(recovery, "first")
    assert snapshots.ids(recovery) == [FIRST, SECOND, by_hand], "a savepoint that may still be wanted back keeps it"
    maintenance.expire(golden("good", now=SECOND_AT + 28 * DAY_MS), "second")
    assert snapshots.ids(recovery) == [SECOND, by_hand]


def test_expiry_opens_each_table_once_and_no_manifest_of_which_there_is_a_summary(
    golden: OpenGolden, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = golden("good", now=T0)
    for number in range(3):
        recovery.savepoints.publish(replace(recovery.savepoints.read(SECOND), savepoint_id=f"20261121T01000{number}Z-0000000009"))
    opened: list[str] = []
    real = Repository.get
    monkeypatch.setattr(Repository, "get", lambda self, key, **most: opened.append(key) or real(self, key, **most))
    plan = maintenance.plan_expiry(recovery)
    assert len(plan.keep) + len(plan.expire) == 5
    tables = [key for key in opened if "/ranges/" in key]
    assert len(tables) == len(set(tables)) == 3
    manifests = {key for key in opened if key.endswith("manifest.json.zst")}
    assert manifests == {recovery.savepoints.key(one) for one in recovery.savepoints.ids()}, "records may be anybody's"


def test_while_a_table_that_a_savepoint_names_cannot_be_read_no_file_goes(golden: OpenGolden) -> None:
    recovery = golden("missing-table", now=SECOND_AT)
    recovery.repository.create("golden/segments/golden-totals-changelog/0/orphan.parquet", b"x")
    age(recovery, days=1000, now=SECOND_AT)
    plan = maintenance.plan_expiry(recovery)
    assert "golden/ranges/golden-totals-changelog/" in str(plan.blocked)
    assert plan.files == ()
    assert {one.savepoint_id: one.why_kept for one in plan.keep}[SECOND] == ("damaged: check it",)


def test_a_table_that_nobody_names_goes_after_the_grace_period(golden: OpenGolden) -> None:
    recovery = golden("good", now=T0)
    orphan = recovery.layout.range_table("golden-totals-changelog", "0" * 64)
    recovery.repository.create(orphan, b"of a run that was killed before its manifest")
    age(recovery, days=6, now=T0)
    assert orphan not in maintenance.plan_expiry(recovery).files
    age(recovery, days=8, now=T0)
    assert maintenance.plan_expiry(recovery).files == (orphan,)


def test_a_run_that_was_killed_between_tables_and_copies_is_finished(golden: OpenGolden) -> None:
    """The tables of a savepoint whose grace period is over may be gone already: nobody asks for them any more."""
    recovery = golden("good", now=T0)
    recovery.savepoints.retire(SECOND, at=T0 - 8 * DAY_MS)
    tables = [
        recovery.layout.range_table(topic.name, ref.sha256)
        for topic in recovery.savepoints.outline(SECOND).topics
        for ref in topic.tables[-1:]
    ]
    recovery.repository.delete([recovery.layout.manifest(SECOND), *tables])
    age(recovery, days=30, now=T0)
    report = maintenance.expire(recovery, "r")
    assert (report.plan.blocked, report.plan.forget, report.left) == (None, (SECOND,), ())
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
