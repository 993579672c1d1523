from __future__ import annotations

import threading
from pathlib import Path

import pytest

from streams_recovery.core.jobs.progress import JobProgress
from streams_recovery.engine.follow import followed
from streams_recovery.storage.progress_file import write_progress


def seen(records: int) -> JobProgress:
    return JobProgress(
        job="backup",
        phase="copying",
        at=records,
        seconds=1.0,
        records=records,
        records_total=10,
        bytes=0,
        tasks=1,
        tasks_done=0,
        records_per_second=None,
        bytes_per_second=None,
        percent=None,
        seconds_left=None,
    )


def test_each_new_progress_is_handed_on_once(tmp_path: Path) -> None:
    path, found, arrived = tmp_path / "progress.json", [], threading.Event()

    def report(progress: JobProgress) -> None:
        found.append(progress.records)
        arrived.set()

    with followed(path, report, every=0.01):
        for records in (1, 2):
            write_progress(path, seen(records))
            assert arrived.wait(30)
            arrived.clear()
    write_progress(path, seen(3))
    assert found == [1, 2]
    assert not any(thread.name == "job-progress" for thread in threading.enumerate())


def test_the_thread_ends_when_the_job_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the job"), followed(tmp_path / "none.json", print, every=0.01):
        raise ValueError("the job")
    assert not any(thread.name == "job-progress" for thread in threading.enumerate())


def test_without_anybody_to_tell_there_is_no_thread(tmp_path: Path) -> None:
    with followed(tmp_path / "none.json", None):
        assert not any(thread.name == "job-progress" for thread in threading.enumerate())
