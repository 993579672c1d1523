from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from streams_recovery.core import codec
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.engine.secrets import secrets_file
from tests.support.project import PROJECT

LOCATION = codec.dumps(StorageLocation(backend="filesystem", path="/nowhere")).decode()

JOB = """
import time
from spark_jobs.submitter import end_with_submitter
end_with_submitter()
time.sleep(float("%s"))
"""


def environment_of(submitter):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    environment.pop("STREAMS_RECOVERY_SUBMITTER", None)
    return environment if submitter is None else environment | {"STREAMS_RECOVERY_SUBMITTER": str(submitter)}


def job(submitter, seconds):
    return subprocess.Popen([sys.executable, "-c", JOB % seconds], env=environment_of(submitter), stderr=subprocess.PIPE, text=True)


@pytest.fixture
def submitter():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_job_ends_when_its_submitter_was_killed_also_before_anybody_reaped_it(submitter):
    running = job(submitter.pid, 600)
    time.sleep(0.3)
    assert running.poll() is None
    os.kill(submitter.pid, 9)
    assert running.wait(60) == 69
    assert running.stderr.read() == f"The submitter, pid {submitter.pid}, is gone: the job ends.\n"


def test_a_job_whose_submitter_was_gone_before_it_looked_ends_at_once(submitter):
    submitter.kill()
    submitter.wait()
    assert job(submitter.pid, 600).wait(60) == 69


def test_a_job_with_a_living_submitter_or_none_runs_to_its_end(submitter):
    assert [job(pid, 0.5).wait(60) for pid in (submitter.pid, None)] == [0, 0]


def test_a_driver_whose_submitter_was_killed_before_it_began_leaves_no_secrets(submitter, tmp_path):
    submitter.kill()
    submitter.wait()
    with secrets_file(None, None, directory=tmp_path) as secrets:
        arguments = ["--order", tmp_path / "order.json", "--receipt", tmp_path / "receipt.json", "--repository", LOCATION]
        environment = environment_of(submitter.pid) | {"STREAMS_RECOVERY_SECRETS_FILE": str(secrets)}
        done = subprocess.run(
            [sys.executable, "-m", "spark_jobs.backup", *arguments],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 69, done.stderr
        assert not secrets.exists()
