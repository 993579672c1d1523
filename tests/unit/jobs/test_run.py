from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, Damaged, SparkJobFailed
from streams_recovery.core.jobs import JobFailure, RestoreResult, failure_key
from streams_recovery.core.location import StorageLocation
from streams_recovery.jobs.outcome import read_outcome
from streams_recovery.jobs.run import run_submit
from streams_recovery.storage.repository import AlreadyExists, Repository

KEY = "a/work/r/load-result.0001.json"
RESULT = RestoreResult(partitions=(), seconds=1.5)


@pytest.fixture
def repository(tmp_path):
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))


def run(repository, tmp_path, code, *arguments, **environment):
    argv = [sys.executable, "-c", code, *arguments]
    return run_submit(argv, environment, log=tmp_path / "logs" / "job.log", repository=repository, result_key=KEY, kind=RestoreResult)


def test_the_result_is_what_counts(repository, tmp_path):
    repository.create(KEY, codec.dumps(RESULT))
    assert run(repository, tmp_path, "import sys; sys.exit(3)") == RESULT


def test_no_result_is_a_failure_with_the_end_of_the_log(repository, tmp_path):
    code = "import os, sys; print(os.environ['FROM_CALLER'], sys.argv[1]); print('the reason', file=sys.stderr)"
    with pytest.raises(SparkJobFailed, match="the reason") as caught:
        run(repository, tmp_path, code, "; touch /should-not-exist", FROM_CALLER="here")
    assert "here ; touch /should-not-exist" in str(caught.value.facts["log_tail"])


def test_the_job_gets_the_environment_it_is_given_and_nothing_else(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "canary")
    with pytest.raises(SparkJobFailed) as caught:
        run(repository, tmp_path, "import os; print(sorted(os.environ.items()))", FROM_CALLER="here", LC_CTYPE="C.UTF-8")
    assert "[('FROM_CALLER', 'here'), ('LC_CTYPE', 'C.UTF-8')]" in str(caught.value.facts["log_tail"])


def test_the_job_s_own_error_is_raised_again(repository, tmp_path):
    cause = Damaged("a file is broken", next_step="choose another", key="k", offset=5)
    repository.create(failure_key(KEY), codec.dumps(JobFailure.of(cause)))
    with pytest.raises(Damaged, match=r"a file is broken\. Next: choose another") as caught:
        run(repository, tmp_path, "pass")
    assert caught.value.facts == {"key": "k", "offset": "5"}


def test_an_unknown_error_becomes_the_nearest_known(repository):
    failure = JobFailure(error="RecoveryError.__init__", reason="r", next_step="n", facts={})
    repository.create(failure_key(KEY), codec.dumps(failure))
    with pytest.raises(SparkJobFailed, match="r"):
        read_outcome(repository, KEY, RestoreResult)


def test_a_result_of_something_else_is_damaged(repository):
    repository.create(KEY, b'{"ranges": []}')
    with pytest.raises(Damaged):
        read_outcome(repository, KEY, RestoreResult)


def test_a_result_is_created_once(repository):
    repository.create(KEY, codec.dumps(RESULT))
    with pytest.raises(AlreadyExists):
        repository.create(KEY, b"{}")


def test_a_command_that_is_not_there(repository, tmp_path):
    with pytest.raises(ConfigInvalid, match="cannot be started"):
        run_submit(["/no/such/spark-submit"], {}, log=tmp_path / "l", repository=repository, result_key=KEY, kind=RestoreResult)


def test_an_interruption_ends_the_job_and_what_it_started(tmp_path):
    pids = tmp_path / "pids"
    grandchild = f"import os,time; open({str(pids)!r},'a').write(str(os.getpid())+' '); time.sleep(60)"
    child = f"import subprocess,sys,signal; subprocess.run([sys.executable,'-c',{grandchild!r}])"
    caller = (
        "import sys,pathlib\n"
        "from streams_recovery.jobs.run import run_submit\n"
        "from streams_recovery.storage.repository import Repository\n"
        "from streams_recovery.core.location import StorageLocation\n"
        "from streams_recovery.core.jobs import RestoreResult\n"
        f"repository = Repository(StorageLocation(backend='filesystem', path={str(tmp_path / 'r')!r}))\n"
        f"run_submit([sys.executable,'-c',{child!r}], {{}}, log=pathlib.Path({str(tmp_path / 'log')!r}), repository=repository,"
        " result_key='k', kind=RestoreResult)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", caller], stderr=subprocess.DEVNULL, env={"PYTHONPATH": ":".join(sys.path)})
    deadline = time.monotonic() + 20
    while not (pids.exists() and pids.read_text().endswith(" ")) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(pids.read_text())
    process.send_signal(2)
    process.wait(20)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
