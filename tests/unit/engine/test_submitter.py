from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.support.project import PROJECT

JOB = """
import time
from spark_jobs.submitter import end_with_submitter
end_with_submitter()
time.sleep(float("%s"))
"""


def job(submitter, seconds):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    environment.pop("STREAMS_RECOVERY_SUBMITTER", None)
    if submitter is not None:
        environment["STREAMS_RECOVERY_SUBMITTER"] = str(submitter)
    return subprocess.Popen([sys.executable, "-c", JOB % seconds], env=environment, stderr=subprocess.PIPE, text=True)


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
