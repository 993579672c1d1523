"""The process of a small job: what it is given, and where it finds the job's program."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.one_process import ProcessCall, process_call
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.repository import Repository
from tests.support.project import PROJECT

CANARY = "canary-8d2f"


@pytest.fixture
def job(tmp_path: Path) -> SparkJob:
    return SparkJob(
        name="backup",
        spec=ArtifactRef.of("app/work/run/spec.json", b"{}"),
        result_key="app/work/run/result.json",
        repository=Repository(StorageLocation(backend="filesystem", path=str(tmp_path))),
        connection=KafkaConnection(bootstrap_servers="b:1", properties={"sasl.password": CANARY}),
        credentials=None,
    )


@pytest.mark.fault("F61")
def test_secrets_are_in_a_file_of_its_owner_and_nowhere_else_and_gone_behind_it(job: SparkJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", CANARY)
    with process_call(job) as call:
        secrets = Path(call.environment["STREAMS_RECOVERY_SECRETS_FILE"])
        assert CANARY in secrets.read_text()
        assert secrets.stat().st_mode & 0o777 == 0o600
        assert CANARY not in json.dumps([call.argv, call.environment])
        assert call.environment["STREAMS_RECOVERY_SUBMITTER"] == str(os.getpid())
    assert not secrets.exists()
    assert not call.receipt.parent.exists()


def helped(call: ProcessCall, directory: Path) -> subprocess.CompletedProcess[str]:
    """The program, asked for its options in this directory."""
    begun = call.argv[: call.argv.index("--without-spark")]
    return subprocess.run([*begun, "--help"], env=call.environment, cwd=directory, capture_output=True, text=True, check=False)


def test_the_program_is_found_from_any_directory_and_takes_no_module_from_there(
    job: SparkJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "streams_recovery.py").write_text("raise SystemExit('not this one')")
    (tmp_path / "json.py").write_text("raise SystemExit('not this one')")
    with process_call(job) as call:
        done = helped(call, tmp_path)
    assert (done.returncode, "--without-spark" in done.stdout) == (0, True), done.stderr


def test_what_else_is_beside_the_programs_hides_no_library_and_no_other_package_hides_them(
    job: SparkJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, others = tmp_path / "home", tmp_path / "others"
    for directory in (home, others):
        directory.mkdir()
    (home / "spark_jobs").symlink_to(PROJECT / "spark_jobs")
    for path in (home / "json.py", home / "pyspark.py", others / "spark_jobs.py", others / "streams_recovery.py"):
        path.write_text("raise SystemExit('not this one')")
    monkeypatch.setenv("STREAMS_RECOVERY_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(others))
    with process_call(job) as call:
        done = helped(call, tmp_path)
    assert (done.returncode, "--without-spark" in done.stdout) == (0, True), done.stderr
