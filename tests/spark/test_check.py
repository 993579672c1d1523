"""The check's job on Spark: a row a file, in the order of nothing, and damage as a result."""

from __future__ import annotations

import shutil

import pytest

from streams_recovery.core.repository import check
from streams_recovery.core.repository.check import Cause, CheckSpec
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.project import GOLDEN
from tests.support.repository.golden import FIRST, SECOND
from tests.support.repository.verify_command import verify

IDS = (FIRST, SECOND)

pytestmark = pytest.mark.spark


@pytest.mark.way("check")
@pytest.mark.fault("F10")
@pytest.mark.parametrize(("name", "damaged"), [("good", 0), ("flipped-bit", 1), ("wrong-row-count", 1), ("missing-segment", 1)])
def test_every_file_is_read_by_a_task_and_damage_is_told(spark, access, tmp_path, name, damaged):
    from dataclasses import replace

    from spark_jobs.transforms.check import check_files

    shutil.copytree(GOLDEN / name, tmp_path / "golden-repository")
    location = StorageLocation(backend="filesystem", path=str(tmp_path / "golden-repository"))
    store = SavepointStore(Repository(location), Layout("golden"))
    opened = {}
    files, _ = check.files_of([store.read(savepoint_id, opened) for savepoint_id in IDS], opened)
    result = check_files(spark.sparkContext, CheckSpec(application_id="golden", files=tuple(files)), replace(access, location=location))
    assert {done.key for done in result.files} == {wanted.file.key for wanted in files}
    assert sum(1 for done in result.files if done.problems) == damaged
    assert sum(done.rows for done in result.files) > 0


def test_a_file_that_cannot_be_read_does_not_end_the_job(spark, access, tmp_path):
    from dataclasses import replace

    from spark_jobs.transforms.check import check_files

    shutil.copytree(GOLDEN / "flipped-bit", tmp_path / "golden-repository")
    location = StorageLocation(backend="filesystem", path=str(tmp_path / "golden-repository"))
    store = SavepointStore(Repository(location), Layout("golden"))
    opened = {}
    files, _ = check.files_of([store.read(savepoint_id, opened) for savepoint_id in IDS], opened)
    # Not even root can open a link to itself.
    (unreadable,) = [wanted.file.key for wanted in files if "/1/" in wanted.file.key]
    path = tmp_path / "golden-repository" / unreadable
    path.unlink()
    path.symlink_to(path.name)
    result = check_files(spark.sparkContext, CheckSpec(application_id="golden", files=tuple(files)), replace(access, location=location))
    causes = {done.key: done.cause for done in result.files}
    assert causes.pop(unreadable) is Cause.NOT_READ
    assert sorted(causes.values(), key=str) == [None, None, Cause.ALTERED_FILE]


@pytest.mark.deep
def test_verify_reads_files_as_a_process_and_its_code_is_that_of_the_worst(tmp_path):
    shutil.copytree(GOLDEN / "flipped-bit", tmp_path / "repository")
    outcome = verify(tmp_path, f"{{backend: filesystem, path: {tmp_path / 'repository'}}}", "--level", "full", "--json")
    assert outcome.code == 25, outcome
    report = outcome.report
    assert (report["causes"], report["files"], report["files_read"]) == (["altered-file"], 4, 4)
    (found,) = report["findings"]
    assert (found["topic"], found["partition"], found["start"], found["end"]) == ("golden-totals-changelog", 0, 40, 55)
    assert "has SHA-256" in found["problem"]
