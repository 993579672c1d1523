"""What of local state is removed, and that nothing else is: links are not followed. What of it is older than that."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streams_recovery.application import local_state
from streams_recovery.application.local_state import since, task_directory_of, wipe
from streams_recovery.application.process import ProcessApplication
from streams_recovery.config.runs import ProcessRuns
from streams_recovery.core.application_kind import ApplicationKind
from streams_recovery.core.errors import ConfigInvalid, Refused


def fill(directory):
    directory.mkdir(parents=True)
    (directory / "file").touch()
    return directory


def test_whole_directories_go_and_neighbours_stay(tmp_path):
    one, two = fill(tmp_path / "1" / "app"), fill(tmp_path / "2" / "app")
    neighbour = fill(tmp_path / "1" / "app-eu")
    report = wipe([tmp_path / "1", tmp_path / "2", tmp_path / "3", tmp_path / "1"], "app")
    assert report.removed == (str(one), str(two))
    assert report.remaining == ()
    assert (neighbour / "file").exists()
    assert (tmp_path / "1").exists()


@pytest.mark.parametrize("state", ["/", "/tmp", "state", "/var/lib/../lib", str(Path.home())])
def test_what_cannot_be_a_state_directory(state):
    with pytest.raises(ConfigInvalid, match="state directory"):
        wipe([Path(state)], "app")


@pytest.mark.parametrize("application_id", ["", ".", "..", "a/b", "/", "-rf", "../app"])
def test_an_application_id_is_one_name(tmp_path, application_id):
    with pytest.raises(ConfigInvalid, match="application id"):
        wipe([tmp_path], application_id)
    assert tmp_path.exists()


def test_nothing_goes_when_anything_is_refused(tmp_path):
    one = fill(tmp_path / "1" / "app")
    precious = fill(tmp_path / "precious")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "app").symlink_to(precious)
    with pytest.raises(Refused, match="symbolic link"):
        wipe([tmp_path / "1", tmp_path / "2"], "app")
    assert one.exists()
    assert (precious / "file").exists()


def test_a_linked_state_directory_is_not_followed(tmp_path):
    fill(tmp_path / "real" / "app")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Refused, match="symbolic link"):
        wipe([tmp_path / "link"], "app")
    assert (tmp_path / "real" / "app").exists()


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "app").touch()
    with pytest.raises(Refused, match="not a directory"):
        wipe([tmp_path], "app")


def test_links_inside_are_removed_and_not_followed(tmp_path):
    precious = fill(tmp_path / "precious")
    (fill(tmp_path / "1" / "app") / "link").symlink_to(precious)
    assert wipe([tmp_path / "1"], "app").remaining == ()
    assert (precious / "file").exists()


def test_what_cannot_be_removed_remains_in_the_report(tmp_path, monkeypatch):
    one = fill(tmp_path / "1" / "app")

    def full(*_arguments, **_options):
        raise OSError("device busy")

    monkeypatch.setattr("shutil.rmtree", full)
    report = wipe([tmp_path / "1"], "app")
    assert (report.removed, report.remaining) == ((), (str(one),))


def table(directory):
    (directory / "counts-0.db").mkdir(parents=True)
    (directory / "counts-0.db" / "CURRENT").touch()
    (directory / "counts-backups").mkdir()
    return directory


def test_tables_of_faust_go_and_the_rest_of_its_directory_stays(tmp_path):
    tables, own = table(tmp_path / "1" / "v1" / "tables"), fill(tmp_path / "1" / "other")
    assert wipe([tmp_path / "1"], "words", ApplicationKind.FAUST).removed == (str(tables),)
    assert not tables.exists()
    assert (own / "file").exists()


def test_what_is_no_table_of_faust_is_refused(tmp_path):
    tables = table(tmp_path / "1" / "v1" / "tables")
    (tables / "notes.txt").touch()
    with pytest.raises(Refused, match=r"notes\.txt") as caught:
        wipe([tmp_path / "1"], "words", ApplicationKind.FAUST)
    assert caught.value.facts["strange"] == ["notes.txt"]
    assert (tables / "counts-0.db" / "CURRENT").exists()


def test_nobody_can_tell_which_version_a_directory_is_of(tmp_path):
    first, second = table(tmp_path / "1" / "v1" / "tables"), table(tmp_path / "1" / "v2" / "tables")
    with pytest.raises(Refused, match="nobody can tell"):
        wipe([tmp_path / "1"], "words-v2", ApplicationKind.FAUST)
    assert first.exists()
    assert second.exists()
    assert wipe([tmp_path / "1"], "words", ApplicationKind.FAUST).removed == (str(first),)


def test_a_linked_directory_of_tables_is_not_followed(tmp_path):
    table(tmp_path / "real" / "tables")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "v1").symlink_to(tmp_path / "real")
    with pytest.raises(Refused, match="symbolic link"):
        wipe([tmp_path / "1"], "words", ApplicationKind.FAUST)
    assert (tmp_path / "real" / "tables").exists()


def wiped(tmp_path):
    """A state directory with state that was wiped, some of which somebody has kept."""
    fill(tmp_path / "state" / "app" / "0_0")
    fill(tmp_path / "kept" / "0_1")
    time.sleep(0.02)
    report = wipe([tmp_path / "state"], "app")
    assert [mark.place for mark in report.marks] == [str(tmp_path / "state" / "app")]
    assert list((tmp_path / "state").iterdir()) == [], "no mark is left"
    return tmp_path / "state" / "app", report.marks


@pytest.mark.fault("F107")
@pytest.mark.parametrize("births", [True, False], ids=["times of birth", "times of change"])
def test_state_is_young_or_old_by_when_it_was_made(tmp_path, monkeypatch, births):
    if not births:
        monkeypatch.setattr(local_state, "_birth", lambda _: None)
    own, marks = wiped(tmp_path)
    found = since(marks)
    assert (found.fresh, found.stale, found.unseen) == ((), (), (f"{own} is not there",))
    fill(own / "0_0")
    assert since(marks).fresh == (str(own),)
    (tmp_path / "kept" / "0_1").rename(own / "0_1")
    found = since(marks)
    assert found.fresh == ()
    assert str(own / "0_1") in found.stale[0]


@pytest.mark.fault("F107")
def test_a_new_owner_and_a_new_entry_make_no_old_state_young(tmp_path):
    own, marks = wiped(tmp_path)
    (tmp_path / "kept").rename(own)
    for path in (own, own / "0_1", own / "0_1" / "file"):
        os.chown(path, os.getuid(), os.getgid())
        path.chmod(0o700)
    (own / "0_1" / "new").touch()
    os.utime(own)
    assert since(marks).stale


@pytest.mark.fault("F107")
def test_a_link_that_leads_to_old_state_is_followed(tmp_path):
    own, marks = wiped(tmp_path)
    own.symlink_to(tmp_path / "kept")
    assert since(marks).stale


def test_of_a_directory_that_cannot_be_looked_at_nothing_is_said(tmp_path, monkeypatch):
    own, marks = wiped(tmp_path)
    fill(own)

    def refused(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(local_state, "_born", refused)
    assert since(marks).unseen == (f"{own} cannot be looked at: Permission denied",)


def test_a_file_of_a_task_tells_where_the_state_is():
    for file, directory in (
        ("/data/app/0_0/rocksdb/store/LOCK", "/data/app"),
        ("/data/app/__named__1_12/.checkpoint", "/data/app"),
        ("/data/app/x__1_12/.checkpoint", "/data/app"),
        ("/data/application/0_0/LOCK", None),
        ("/data/app/logs/0", None),
    ):
        found = task_directory_of(Path(file), "app")
        assert (None if found is None else str(found)) == directory


def test_a_wipe_needs_no_state_directory_that_cannot_be_made(tmp_path):
    def wiped_in(directory):
        instance = {"name": "a", "url": "http://localhost:1", "state_directory": str(directory)}
        section = ProcessRuns.model_validate({"directory": str(tmp_path / "own"), "command": ["true"], "instances": [instance]})
        return ProcessApplication(section, "app", ApplicationKind.KAFKA_STREAMS).wipe_state()

    (tmp_path / "file").touch()
    assert (wiped_in(tmp_path / "file" / "below").remaining, wiped_in(tmp_path / "state").remaining) == ((), ())
