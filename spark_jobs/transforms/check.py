"""Checking: every file is fetched, hashed, decoded and compared with what its manifests say of it."""

from __future__ import annotations

import time

from spark_jobs.access import JobAccess
from spark_jobs.transforms.counting import count
from spark_jobs.transforms.one_process import Tasks
from spark_jobs.transforms.progress import Doing
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core.errors import Damaged, NotFound
from streams_recovery.core.repository.check import Cause, CheckResult, CheckSpec, FileChecked, FileToCheck, content_problems
from streams_recovery.core.repository.layout import Layout
from streams_recovery.segments.files import workspace
from streams_recovery.segments.queries import fetch
from streams_recovery.storage.json_object import UNREADABLE, only_this_one
from streams_recovery.storage.repository import Repository


def check_files(context: Tasks, spec: CheckSpec, access: JobAccess) -> CheckResult:
    """Read every file. A file that is damaged or cannot be read is a result, not an error."""
    started = time.monotonic()
    layout = Layout(spec.application_id)
    doing = Doing(name="checking files", records=sum(wanted.file.rows for wanted in spec.files))

    def work(wanted: FileToCheck) -> FileChecked:
        found = check_file(access.repository(), layout, wanted)
        count(wanted.file.rows, wanted.file.payload_bytes)
        return found

    checked = run_tasks(context, spec.files, work, FileChecked, lambda wanted: wanted.file.rows, doing)
    return CheckResult(files=tuple(checked), seconds=time.monotonic() - started)


def check_file(repository: Repository, layout: Layout, wanted: FileToCheck) -> FileChecked:
    """One file. Needs local space for it and memory for one batch. Raises what reading raises when the repository does not answer at all."""
    # Parquet reading is shared with the Kafka ring, whose client a driver does not have.
    from streams_recovery.segments.files import contents_of  # noqa: PLC0415

    with workspace("a segment is checked") as directory:
        path = directory / "segment.parquet"
        try:
            fetch(repository, wanted.file, path)
            seen, ascending = contents_of(path, wanted.file, keys=repository.data_keys)
        except Damaged as error:
            return _wrong(wanted, Cause.ALTERED_FILE, error.reason)
        except NotFound:
            return _wrong(wanted, Cause.MISSING_FILE, "is missing")
        except UNREADABLE as error:
            return _wrong(wanted, Cause.NOT_READ, only_this_one(repository, layout, error))
    problems = content_problems(wanted, seen, ascending=ascending)
    return FileChecked(key=wanted.file.key, rows=seen.rows, cause=Cause.ALTERED_FILE if problems else None, problems=problems)


def _wrong(wanted: FileToCheck, cause: Cause, problem: str) -> FileChecked:
    return FileChecked(key=wanted.file.key, rows=0, cause=cause, problems=(problem,))
