"""One poisoned manifest, and whatever else somebody put beside ours, stops neither a listing nor an expiry nor a check, nor hides a good savepoint."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streams_recovery.cli.app import app
from streams_recovery.core.errors import Damaged, EntryUnreadable, NotFound, Refused
from streams_recovery.core.kafka_types import Consistency
from streams_recovery.core.repository.check import Cause
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.publication import Publication
from streams_recovery.core.repository.ranges import TableRef
from streams_recovery.core.words import is_id, new_id
from streams_recovery.operations import maintenance, unfinished
from streams_recovery.operations.restore.evidence import reports
from streams_recovery.operations.unfinished import pin
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.json_object import create_value
from streams_recovery.storage.repository import Repository
from tests.support.repository.golden import FIRST, SECOND, SECOND_AT, T0, OpenGolden, age, checked, root
from tests.support.repository.poison import LAST_SECOND, NEWER, NO_TIME, POISONS, poison

DAY = 86_400_000
ENVIRONMENT = {
    "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
    "COLUMNS": "200",
}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("name", list(POISONS))
def test_a_poisoned_newest_manifest_stops_nothing(golden: OpenGolden, tmp_path: Path, name: str) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    poison(root(recovery) / "savepoints", name)
    listed = CliRunner().invoke(app, ["savepoints", "list", "golden", "--configs", str(tmp_path), "--json"], env=ENVIRONMENT)
    assert listed.exit_code == 0, listed.output
    *good, bad = json.loads(listed.stdout)
    assert ([one["savepoint_id"] for one in good], bad["savepoint_id"]) == ([FIRST, SECOND], NEWER)
    assert f"golden/savepoints/{NEWER}/manifest.json.zst" in bad["damaged"]
    table = CliRunner().invoke(app, ["savepoints", "list", "golden", "--configs", str(tmp_path)], env=ENVIRONMENT)
    assert table.exit_code == 0, table.output
    assert all(known in table.output for known in (FIRST, SECOND, "damaged"))
    planned = maintenance.plan_expiry(recovery)
    assert ([one.savepoint_id for one in planned.keep], [one.savepoint_id for one in planned.expire]) == ([SECOND], [FIRST])
    assert planned.blocked == f"no file may go while these cannot be read: {NEWER}"
    done = maintenance.expire(recovery, "run")
    assert done.expired == (FIRST,)
    assert recovery.savepoints.read(SECOND).savepoint_id == SECOND
    with pytest.raises(Damaged, match=NEWER) as caught:
        recovery.savepoints.latest()
    assert caught.value.next_step
    found = {finding.cause for finding in checked(recovery, "structure").findings}
    assert found == {Cause.DAMAGED_MANIFEST}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("savepoint_id", [LAST_SECOND, NO_TIME])
def test_an_id_from_no_time_of_ours_leaves_the_next_one_its_own(golden: OpenGolden, savepoint_id: str) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    poison(root(recovery) / "savepoints", "nothing", savepoint_id)
    mine = new_id(recovery.clock(), "run", after=recovery.savepoints.ids())
    assert is_id(mine)
    assert SECOND < mine < "2027"


@pytest.mark.fault("F63")
def test_a_savepoint_ten_years_ahead_is_never_the_newest_shifts_no_id_and_is_named(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    ahead = new_id(SECOND_AT + 3_650 * DAY, "forged")
    recovery.savepoints.publish(replace(recovery.savepoints.read(FIRST), savepoint_id=ahead))
    store = recovery.savepoints
    assert store.ids() == [ahead, FIRST, SECOND]
    assert list(store.summaries()) == [ahead, FIRST, SECOND], "no listing ends with it"
    latest, newest = store.latest(), next(store.newest_first())
    assert latest is not None
    assert (latest.savepoint_id, newest.savepoint_id) == (SECOND, SECOND)
    later = new_id(SECOND_AT - 1, "run with a late clock", after=store.ids())
    assert SECOND < later < ahead, "it follows what is really the newest"
    journal = AppendLog(recovery.repository, recovery.layout.journal(ahead), JournalEntry)
    journal.append(JournalEntry(phase=Phase.CLOSED, at=1, created=()))
    AppendLog(recovery.repository, recovery.layout.journal(SECOND), JournalEntry).append(
        JournalEntry(phase=Phase.LOADED, at=SECOND_AT, created=())
    )
    assert unfinished.newest_restore(recovery) == SECOND
    assert unfinished.unfinished_restore(recovery) == SECOND
    assert {one.key for one in checked(recovery, "structure").findings} == {store.key(ahead), recovery.layout.journal(ahead)}


@pytest.mark.fault("F63")
@pytest.mark.parametrize("forge", ["nothing in it", "another savepoint's", "made up", "named in the far future"])
def test_what_is_put_where_expired_manifests_are_hides_no_loss_and_gives_no_file_away(golden: OpenGolden, forge: str) -> None:
    recovery = golden("good", now=SECOND_AT)
    recovery.savepoints.publish(recovery.savepoints.read(SECOND))
    manifest = recovery.layout.manifest(SECOND)
    key = recovery.layout.retired(SECOND, 10**15 if forge == "named in the far future" else 1)
    true = recovery.repository.get(manifest)
    other = golden("no-manifest", place="other", now=SECOND_AT)
    other.savepoints.publish(replace(recovery.savepoints.read(FIRST), savepoint_id=SECOND))
    contents = {
        "nothing in it": b"x",
        "another savepoint's": recovery.repository.get(recovery.layout.manifest(FIRST)),
        "made up": other.repository.get(manifest),
    }
    recovery.repository.create(key, contents.get(forge, true))
    age(recovery, days=4, now=SECOND_AT)
    assert key in {one.key for one in checked(recovery, "structure").findings}, "it is named while the savepoint exists"
    recovery.repository.delete([manifest])
    plan = maintenance.plan_expiry(recovery)
    if forge != "named in the far future":
        assert {one.cause for one in checked(recovery, "structure").findings} == {Cause.LOST_MANIFEST}
        assert f"{SECOND} (lost)" in str(plan.blocked)
    else:
        assert (plan.files, plan.forget) == ((), ()), "four days are no grace period of seven"
        age(recovery, days=8, now=SECOND_AT)
        assert maintenance.plan_expiry(recovery).forget == (SECOND,), "the time in a name keeps nothing for ever"


@pytest.mark.fault("F63")
@pytest.mark.parametrize("change", [{"tables": {}}, {"consistency": Consistency.DAMAGED}, {"captured_at": 1}, {"replaces": FIRST}])
def test_expiry_goes_by_manifests_and_not_by_what_a_record_says(golden: OpenGolden, change: dict[str, Any]) -> None:
    recovery = golden("good", now=SECOND_AT)
    honest = maintenance.plan_expiry(recovery)
    forged = replace(recovery.savepoints.summary_of_manifest(SECOND), **change)
    create_value(recovery.repository, recovery.layout.published(SECOND), forged)
    age(recovery, days=1000, now=SECOND_AT)
    assert recovery.savepoints.summaries()[SECOND] == forged, "a list goes by it"
    assert maintenance.plan_expiry(recovery).parts == honest.parts


@pytest.mark.fault("F63")
@pytest.mark.parametrize("name", ["restores/ü/journal/000000000001.json", "restores/x/report.md", "restores/-/y", "restores/.z"])
def test_restores_that_are_none_are_passed_over(golden: OpenGolden, name: str) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    recovery.repository.create(f"golden/{name}", b"x")
    assert unfinished.unfinished_restore(recovery) is None
    assert (
        unfinished.newest_restore(recovery),
        list(unfinished.restore_journals(recovery)),
        reports(recovery.repository, recovery.layout),
    ) == (
        None,
        [],
        [],
    )
    assert maintenance.expire(recovery, "run").expired == (FIRST,)


@pytest.mark.fault("F63")
def test_expired_savepoints_that_are_none_are_passed_over(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + 400 * DAY)
    recovery.repository.create(f"golden/expired/ü x/manifest.{0:020}.json.zst", b"x")
    recovery.repository.create(f"golden/expired/{FIRST}x/manifest.{0:020}.json.zst", b"x")
    assert recovery.savepoints.copies() == {}
    done = maintenance.expire(recovery, "run")
    assert (done.left, done.plan.blocked) == ((), None)


@pytest.mark.fault("F63")
def test_a_journal_that_cannot_be_read_is_named_with_the_way_out(golden: OpenGolden) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    restore_id = new_id(SECOND_AT, "nobody")
    recovery.repository.create(f"{recovery.layout.journal(restore_id)}000000000001.json", b'{"phase": ["destroying"]}')
    with pytest.raises(Damaged, match="is not known") as caught:
        unfinished.refuse_if_unfinished(recovery)
    assert caught.value.facts["key"] == f"{recovery.layout.journal(restore_id)}000000000001.json"
    assert caught.value.commands == (f"streams-recovery dismiss golden {restore_id}",)
    with pytest.raises(NotFound):
        unfinished.dismiss(recovery, new_id(SECOND_AT, "somebody"))
    unfinished.dismiss(recovery, restore_id)
    unfinished.refuse_if_unfinished(recovery)


@pytest.mark.fault("F63")
def test_marks_that_cannot_be_read_keep_everything(golden: OpenGolden) -> None:
    """Whose word it was nobody knows: it may have been about any savepoint."""
    recovery = golden("good", now=SECOND_AT + DAY)
    pin(recovery, FIRST, keep=True, requested_by="me", reason="r")
    recovery.repository.create(f"{recovery.layout.pins}000000000002.json", b"[" * 100_000)
    with pytest.raises(EntryUnreadable, match=r"golden/pins/000000000002\.json"):
        maintenance.expire(recovery, "run")
    assert recovery.savepoints.ids() == [FIRST, SECOND]


@pytest.mark.fault("F63")
def test_a_record_of_publication_that_is_a_bomb_is_damage(golden: OpenGolden) -> None:
    recovery = golden("good")
    path = root(recovery) / "published" / f"{SECOND}.json"
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"[" + b"[]," * 6_000_000 + b"[]]")
    with pytest.raises(Damaged) as caught:
        recovery.savepoints.altered(SECOND)
    assert str(caught.value.facts["key"]).endswith(f"published/{SECOND}.json")
    assert (caught.value.facts["bytes"], caught.value.facts["limit"]) == (18_000_004, 16_777_216)
    assert Cause.DAMAGED_RECORD in {finding.cause for finding in checked(recovery, "structure").findings}


@pytest.mark.fault("F63")
@pytest.mark.parametrize(
    "change",
    [
        {"records": 7, "bytes": 1},
        {"records": 7, "manifest": "golden/x"},
        {"savepoint_id": FIRST},
        {"application_id": "x"},
        {"captured_at": 2**62},
        {"records": -1},
        {"survives_cluster_loss": True, "lost_with_cluster": ("none",)},
        {"survives_cluster_loss": False, "lost_with_cluster": ()},
        {"tables": {"../x": ()}},
        {"tables": {"t": (TableRef(sha256="../x", bytes=1, ranges=1),)}},
    ],
)
def test_a_record_about_something_else_is_no_summary(golden: OpenGolden, change: dict[str, Any]) -> None:
    recovery = golden("good")
    honest = recovery.savepoints.summaries()[SECOND]
    assert isinstance(honest, Publication)
    recovery.repository.delete([recovery.layout.published(SECOND)])
    create_value(recovery.repository, recovery.layout.published(SECOND), replace(honest, **change))
    assert recovery.savepoints.summaries()[SECOND] == honest
    assert (
        Cause.DAMAGED_RECORD in {finding.cause for finding in checked(recovery, "structure").findings}
        or "bytes" in change
        or "manifest" in change
    )


@pytest.mark.fault("F63")
def test_a_record_that_somebody_made_up_in_advance_stops_the_run_that_publishes(golden: OpenGolden) -> None:
    recovery = golden("good")
    honest = recovery.savepoints.read(SECOND)
    forged = replace(recovery.savepoints.summary_of_manifest(SECOND), savepoint_id=NEWER)
    create_value(recovery.repository, recovery.layout.published(NEWER), forged)
    with pytest.raises(Damaged, match="was there before savepoint"):
        recovery.savepoints.publish(replace(honest, savepoint_id=NEWER))
    recovery.repository.delete([recovery.layout.published(NEWER)])
    recovery.savepoints.publish(replace(honest, savepoint_id=NEWER))
    recovery.savepoints.publish(replace(honest, savepoint_id=NEWER))
    assert recovery.savepoints.publication(NEWER).records == honest.records


@pytest.mark.fault("F63")
def test_a_record_that_came_long_after_its_manifest_is_no_summary(golden: OpenGolden) -> None:
    """Expiry goes by it: one without tables would give away the files of the savepoint."""
    recovery = golden("good", now=T0 + DAY)
    forged = replace(recovery.savepoints.summary_of_manifest(SECOND), tables={})
    create_value(recovery.repository, recovery.layout.published(SECOND), forged)
    manifest, record = (root(recovery).parent / key for key in (recovery.layout.manifest(SECOND), recovery.layout.published(SECOND)))
    os.utime(manifest, (record.stat().st_mtime - 800,) * 2)
    assert recovery.savepoints.summaries()[SECOND] == forged, "nobody can tell"
    os.utime(manifest, (record.stat().st_mtime - 1_000,) * 2)
    assert recovery.savepoints.summaries()[SECOND] == recovery.savepoints.summary_of_manifest(SECOND) != forged


def test_a_listing_opens_no_manifest_of_which_there_is_a_record(golden: OpenGolden, monkeypatch: pytest.MonkeyPatch) -> None:
    recovery = golden("good")
    recovery.savepoints.publish(replace(recovery.savepoints.read(SECOND), savepoint_id=NEWER))
    opened: list[str] = []
    real = Repository.get
    monkeypatch.setattr(Repository, "get", lambda self, key, **most: opened.append(key) or real(self, key, **most))
    assert list(recovery.savepoints.summaries()) == [FIRST, SECOND, NEWER]
    assert recovery.savepoints.key(NEWER) not in opened
    assert recovery.savepoints.key(SECOND) in opened, "it has no record"


@pytest.mark.fault("F63")
@pytest.mark.remedy("lock-end-record")
def test_a_command_ends_a_record_of_the_lock_that_cannot_be_read(golden: OpenGolden, tmp_path: Path) -> None:
    recovery = golden("good", now=SECOND_AT + DAY)
    key = f"{recovery.layout.locks}000000000001.json"
    recovery.repository.create(key, b"{" * 1_000)
    with pytest.raises(EntryUnreadable, match="streams-recovery unlock golden "):
        maintenance.expire(recovery, "run")
    ended = CliRunner().invoke(app, ["unlock", "golden", key, "--configs", str(tmp_path)], env=ENVIRONMENT, input="golden\n")
    assert (ended.exit_code, "taken" in ended.output) == (0, True), ended.output
    assert maintenance.expire(recovery, "run").expired == (FIRST,)
    with pytest.raises(Refused, match="held by"):
        recovery.lock.acquire("somebody", lease_seconds=60, purpose="p")
        recovery.lock.take_from(key)
