"""What a repository must hold besides files: manifests that were published, logs without holes. And one bad object hides no other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from spark_jobs.transforms.check import check_file
from streams_recovery.core.bounded_json import MOST_BYTES
from streams_recovery.core.errors import ConfigInvalid, Damaged, NotFound, RepositoryUnavailable
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.offsets.snapshot import OffsetSnapshot
from streams_recovery.core.repository.check import CheckSpec
from streams_recovery.core.repository.check_findings import Cause
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.retention import DAY_MS
from streams_recovery.core.topic_holds.log import HoldEntry, HoldPurpose
from streams_recovery.operations import maintenance, quiesce_record
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from tests.support.examples.restore_plan import PLAN
from tests.support.repository.golden import FIRST, NEWEST, SECOND, SECOND_AT, OpenGolden, age, checked, on

THIRD = "20261121T020000Z-0000000003"
RESTORE = "20261121T030000Z-00000000aa"


def path_of(recovery: RecoveryContext, key: str) -> Path:
    return Path(str(recovery.config.storage.path)) / key


def third(recovery: RecoveryContext) -> Path:
    """A savepoint that this release published, with its record; it shares the second one's files. Returns where its manifest is."""
    published = replace(recovery.savepoints.read(SECOND), savepoint_id=THIRD, parent_id=SECOND)
    return path_of(recovery, recovery.savepoints.publish(published))


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


def unfinished(recovery: RecoveryContext, *, source: str = "golden", **needs: str | None) -> None:
    """A restore of what the application ``source`` has saved, that failed behind its load."""
    planned = replace(PLAN, application_id="golden", source_application_id=source, create=(), **needs)  # type: ignore[arg-type]
    recovery.artifacts.write_once(RESTORE, "restore-plan", planned)
    log = AppendLog(recovery.repository, recovery.layout.journal(RESTORE), JournalEntry)
    log.append(JournalEntry(phase=Phase.LOADED, at=SECOND_AT, created=()))


def test_so_does_a_rebuild_of_the_savepoint_that_its_inputs_come_from(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT)
    unfinished(recovery, savepoint_id=None, inputs_from=FIRST)
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


def logs(recovery: RecoveryContext) -> dict[str, str]:
    """Three entries and more in every log of the application; returns each log's prefix."""
    for number in range(3):
        maintenance.pin(recovery, FIRST, keep=number == 1, requested_by="me", reason="")
        recovery.hold_log.append(
            HoldEntry(kind="applied", purpose=HoldPurpose.COPY, run=str(number), at=SECOND_AT, mark=1, topics=(), clear=True)
        )
        journal = AppendLog(recovery.repository, recovery.layout.journal(RESTORE), JournalEntry)
        journal.append(JournalEntry(phase=Phase.OPENED, at=SECOND_AT, created=()))
        quiesce_record.begin(recovery, f"run {number}", QuiesceMode.PAUSE, ())
        snapshot = OffsetSnapshot(
            format_version=2,
            snapshot_id=SECOND,
            application_id="golden",
            cluster_id="c",
            taken_at=number,
            savepoint_id=None,
            requested_by="me",
            reason="",
            groups=(),
            unread={},
        )
        AppendLog(recovery.repository, recovery.layout.offset_snapshot(SECOND), OffsetSnapshot).append(snapshot)
    layout = recovery.layout
    return {
        "locks": layout.locks,
        "quiesce-records": layout.quiesce_records,
        "holds": layout.holds,
        "pins": layout.pins,
        "journal": layout.journal(RESTORE),
        "offsets": layout.offset_snapshot(SECOND),
    }


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
        recovery.hold_log.append(
            HoldEntry(kind="applied", purpose=HoldPurpose.COPY, run=str(number), at=SECOND_AT, mark=1, topics=(), clear=True)
        )
    path_of(recovery, f"{recovery.layout.holds}000000000003.json").write_bytes(b"x")
    assert checked(recovery, "structure").records == 20
    report = checked(recovery, "full")
    assert (report.records, report.causes) == (30, (Cause.DAMAGED_RECORD,))


class Refusing(Repository):
    """A real repository that will not give away some objects, or answers nothing at all."""

    def __init__(self, real: Repository, *refused: str, error: type[ConfigInvalid | RepositoryUnavailable], down: bool = False) -> None:
        super().__init__(real.location)
        self.refused, self.error, self.down = refused, error, down

    def _check(self, key: str) -> None:
        if any(part in key for part in self.refused):
            raise self.error(f"reading {key} failed", next_step="see why")

    def get(self, key: str, *, most_bytes: int = MOST_BYTES) -> bytes:
        self._check(key)
        return super().get(key, most_bytes=most_bytes)

    def open(self, key: str, *, size: int | None = None) -> BinaryIO:
        self._check(key)
        return super().open(key, size=size)

    def keys(self, prefix: str) -> Iterator[str]:
        if self.down:
            raise RepositoryUnavailable("nobody answers", next_step="see why")
        return super().keys(prefix)


@pytest.mark.parametrize("error", [ConfigInvalid, RepositoryUnavailable])
@pytest.mark.parametrize("what", ["a segment", "a manifest", "a record", "a log's entry"])
def test_what_cannot_be_read_is_said_and_everything_else_is_read(
    golden: OpenGolden, what: str, error: type[ConfigInvalid | RepositoryUnavailable]
) -> None:
    recovery = golden("flipped-bit", now=SECOND_AT)
    third(recovery)
    logs(recovery)
    keys = {
        "a segment": "golden-totals-changelog/1/",
        "a manifest": recovery.layout.manifest(FIRST),
        "a record": recovery.layout.published(THIRD),
        "a log's entry": f"{recovery.layout.pins}000000000002.json",
    }
    report = checked(on(recovery, Refusing(recovery.repository, keys[what], error=error)), "full")
    assert report.causes == (Cause.ALTERED_FILE, Cause.NOT_READ), "the damage beside it is found, and counts for more"
    (unread,) = [found for found in report.findings if found.cause is Cause.NOT_READ]
    assert keys[what] in unread.key
    assert "failed" in unread.problem
    altered = [found for found in report.findings if found.cause is Cause.ALTERED_FILE]
    assert [NEWEST in found.key for found in altered] == [True]
    assert report.files_read == (3 if what == "a segment" else 4)
    assert report.savepoints == (2 if what == "a manifest" else 3)


def test_only_unread_is_not_good_either(golden: OpenGolden) -> None:
    recovery = golden("good")
    report = checked(on(recovery, Refusing(recovery.repository, "golden-totals-changelog/1/", error=ConfigInvalid)), "full")
    assert (report.good, report.exit_code, report.files_read) == (False, 22, 3)


def test_a_repository_that_answers_nothing_ends_the_check(golden: OpenGolden) -> None:
    recovery = golden("good")
    ticket = maintenance.plan_check(recovery, savepoint=SECOND, level="full", run_id="r")
    assert ticket.job.spec is not None
    (wanted, *_) = recovery.artifacts.read(CheckSpec, ticket.job.spec).files
    for key, read in (
        ("manifest.json.zst", lambda down: maintenance.plan_check(down, savepoint=SECOND, level="full", run_id="r")),
        ("segments/", lambda down: check_file(down.repository, down.layout, wanted)),
    ):
        with pytest.raises(RepositoryUnavailable, match="nobody answers"):
            read(on(recovery, Refusing(recovery.repository, key, error=RepositoryUnavailable, down=True)))


def test_safety_savepoints_are_checked_like_any_other(golden: OpenGolden) -> None:
    recovery = golden("missing-segment")
    saved = replace(recovery.savepoints.read(SECOND), savepoint_id=THIRD)
    path = path_of(recovery, recovery.safety.publish(saved))
    report = checked(recovery, "structure")
    (missing,) = report.findings
    assert (report.savepoints, missing.savepoints) == (3, (SECOND, THIRD))
    assert checked(recovery, "structure", THIRD).exit_code == 26
    path.unlink()
    (lost, _) = checked(recovery, "structure").findings
    assert (lost.cause, lost.key) == (Cause.LOST_MANIFEST, recovery.layout.safety.manifest(THIRD))
    assert "safety/" in lost.key
