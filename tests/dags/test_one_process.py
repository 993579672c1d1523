"""Small jobs of Airflow's tasks, in a process of their own: no spark-submit, the same result or error, and no process that outlives its task."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from streams_recovery.config.backup import Spark
from streams_recovery.core import codec
from streams_recovery.core.errors import Altered, SparkJobFailed
from streams_recovery.core.jobs.spec import JobPlan
from streams_recovery.core.jobs.volume import JobVolume
from streams_recovery.core.repository.check import CheckResult, CheckSpec
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.one_process import ProcessCall
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.operators.spark import ReadFilesOperator, _AirflowProcess, _AirflowSubmit
from streams_recovery.storage.repository import Repository

SMALL = JobVolume(ranges=1, records=1, payload_bytes=1)
NOTHING = codec.dumps(CheckSpec(application_id="app", files=()))


@pytest.fixture
def operator() -> ReadFilesOperator:
    return ReadFilesOperator(application_name="orders")


@pytest.fixture
def job(tmp_path: Path) -> SparkJob:
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path)))
    repository.create("app/work/run/spec.json", NOTHING)
    spec = ArtifactRef.of("app/work/run/spec.json", NOTHING)
    return SparkJob(
        name="check", spec=spec, result_key="app/work/run/result.json", repository=repository, connection=None, credentials=None
    )


@pytest.mark.parametrize(
    ("volume", "always", "kind"),
    [(SMALL, False, _AirflowProcess), (SMALL, True, _AirflowSubmit), (None, False, _AirflowSubmit)],
)
def test_spark_is_asked_for_what_is_not_small_and_where_it_is_to_do_all(
    operator: ReadFilesOperator, volume: JobVolume | None, always: bool, kind: type
) -> None:
    plan = JobPlan(spec=None, result_key=None, ranges=1, offsets=1, volume=volume)
    assert type(operator._submitter(plan, Spark(always=always), {})) is kind


def test_a_small_job_leaves_its_result_without_spark(operator: ReadFilesOperator, job: SparkJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    left = _AirflowProcess(operator).submit(job)
    assert codec.loads(CheckResult, left.checked(job.repository.get(left.key)), where=left.key).files == ()


def test_an_error_of_ours_is_the_error_of_the_task(operator: ReadFilesOperator, job: SparkJob) -> None:
    job.repository.create(job.result_key, b"somebody else's")
    with pytest.raises(Altered, match="was there before this job had a result"):
        _AirflowProcess(operator).submit(job)


def waiting(tmp_path: Path) -> ProcessCall:
    """A program with a child, which note their ids and wait."""
    program = "import os, pathlib, time; os.fork(); pathlib.Path(str(os.getpid())).touch(); time.sleep(600)"
    return ProcessCall(
        argv=(sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r}); {program}"), environment={}, receipt=tmp_path / "r"
    )


def noted(directory: Path) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(found := [int(path.name) for path in directory.iterdir() if path.name.isdigit()]) == 2:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not begin")


def ended(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(") ")[2].startswith("Z")


def test_a_task_that_is_killed_ends_the_job_and_all_that_it_has_started(operator: ReadFilesOperator, tmp_path: Path) -> None:
    running = threading.Thread(target=operator.run_process, args=(waiting(tmp_path),))
    running.start()
    pids = noted(tmp_path)
    operator.on_kill()
    running.join(60)
    assert (running.is_alive(), [ended(pid) for pid in pids]) == (False, [True, True])


def test_a_job_that_was_killed_has_no_result(operator: ReadFilesOperator, job: SparkJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(call: ProcessCall) -> None:
        assert json.loads(Path(call.environment["STREAMS_RECOVERY_SECRETS_FILE"]).read_text())["kafka"] is None
        assert call.environment["STREAMS_RECOVERY_SUBMITTER"] == str(os.getpid())

    monkeypatch.setattr(operator, "run_process", killed)
    with pytest.raises(SparkJobFailed, match="ended without its result"):
        _AirflowProcess(operator).submit(job)


def test_nothing_is_ended_before_a_job_has_begun(operator: Any) -> None:
    operator.on_kill()
