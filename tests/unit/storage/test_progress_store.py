"""Progress in the repository, and in the file that driver and submitter share."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from streams_recovery.core.jobs.progress import JobProgress, TaskReport, progress_directory
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.objects import write_local
from streams_recovery.storage.progress_store import (
    SLICE,
    progress_of_run,
    progress_path,
    read_progress,
    report_task,
    store_progress,
    task_reports,
)
from streams_recovery.storage.repository import Repository

RESULT = "app/work/run/load.0001.json"
DIRECTORY = progress_directory(RESULT)
NOW = 1_000_000.0


def seen(at: int, phase: str = "loading") -> JobProgress:
    return JobProgress(
        job="restore",
        phase=phase,
        at=at,
        seconds=1.0,
        records=at,
        records_total=None,
        bytes=0,
        tasks=1,
        tasks_done=0,
        records_per_second=None,
        bytes_per_second=None,
        percent=None,
        seconds_left=None,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))


def test_the_driver_sees_what_tasks_of_its_phase_have_just_reported(repository: Repository) -> None:
    first, second = TaskReport(task=1, records=10, payload_bytes=100), TaskReport(task=2, records=5, payload_bytes=50)
    assert report_task(repository, DIRECTORY, 0, first, now=NOW)
    assert report_task(repository, DIRECTORY, 0, second, now=NOW + SLICE)
    assert report_task(repository, DIRECTORY, 1, replace(first, task=9), now=NOW)
    assert sorted(report.task for report in task_reports(repository, DIRECTORY, 0, now=NOW + SLICE)) == [1, 2]
    assert task_reports(repository, DIRECTORY, 0, now=NOW + 5 * SLICE) == []


def test_reports_come_in_the_order_in_which_they_were_stored(repository: Repository, tmp_path: Path) -> None:
    before: set[Path] = set()
    for records in (10, 20, 30):
        report_task(repository, DIRECTORY, 0, TaskReport(task=1, records=records, payload_bytes=0), now=NOW)
        (stored,) = {*tmp_path.rglob("1-*.json")} - before
        os.utime(stored, (records, records))
        before.add(stored)
    assert [report.records for report in task_reports(repository, DIRECTORY, 0, now=NOW)] == [10, 20, 30]


def test_a_page_finds_the_newest_progress_of_each_job_of_a_run(repository: Repository) -> None:
    for number in (1, 2, 12):
        assert store_progress(repository, RESULT, number, seen(number))
    assert store_progress(repository, "app/work/run/verify.0001.json", 1, seen(100, "comparing"))
    assert store_progress(repository, "app/work/other/load.0001.json", 1, seen(200))
    report_task(repository, DIRECTORY, 0, TaskReport(task=1, records=1, payload_bytes=0), now=NOW)
    found = progress_of_run(repository, Layout("app"), "run")
    assert [(one.phase, one.at) for one in found] == [("loading", 12), ("comparing", 100)]
    assert progress_of_run(repository, Layout("app"), "none") == []


def test_what_cannot_be_stored_or_read_stops_nobody(repository: Repository, tmp_path: Path) -> None:
    assert store_progress(repository, RESULT, 1, seen(1))
    assert not store_progress(repository, RESULT, 1, seen(2)), "nothing is overwritten"
    (tmp_path / "app/work/run/progress/load.0001/000002.json").write_text("torn")
    assert progress_of_run(repository, Layout("app"), "run") == []
    (tmp_path / DIRECTORY / "tasks").write_text("in the way")
    assert not report_task(repository, DIRECTORY, 0, TaskReport(task=1, records=1, payload_bytes=0), now=NOW)
    assert task_reports(repository, DIRECTORY, 0, now=NOW) == []


def test_the_file_beside_the_receipt_is_replaced_each_time(tmp_path: Path) -> None:
    path = progress_path(tmp_path / "receipt.json")
    assert read_progress(path) is None
    for at in (1, 2):
        write_local(path, seen(at))
        assert read_progress(path) == seen(at)
    path.write_text("torn")
    assert read_progress(path) is None
