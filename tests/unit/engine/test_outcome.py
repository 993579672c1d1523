from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace

import psutil
import pytest

from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, Damaged, SparkJobFailed
from streams_recovery.core.jobs.spec import JobFailure, JobReceipt, RestoreResult
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.child_process import run_submit, tail
from streams_recovery.engine.outcome import read_outcome
from streams_recovery.storage.receipts import read_receipt, write_receipt
from streams_recovery.storage.repository import AlreadyExists, Repository
from tests.support.project import PROJECT

KEY = "a/work/r/load-result.0001.json"
RESULT = RestoreResult(partitions=(), seconds=1.5)
DATA = codec.dumps(RESULT)


@pytest.fixture
def repository(tmp_path):
    return Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))


def submitted(repository, tmp_path, receipt, *, code="pass"):
    """What a job becomes whose process does ``code`` and leaves this ``receipt``."""
    run_submit([sys.executable, "-c", code], {}, log=tmp_path / "logs" / "job.log")
    if receipt is not None:
        write_receipt(tmp_path / "receipt.json", receipt)
    found = read_receipt(tmp_path / "receipt.json")
    return read_outcome(repository, found, KEY, RestoreResult, log_tail=tail(tmp_path / "logs" / "job.log"))


def stored(repository, data=DATA, key=KEY):
    repository.create(key, data)
    return JobReceipt(result=ArtifactRef.of(key, data), failure=None)


def test_the_result_is_what_counts(repository, tmp_path):
    receipt = stored(repository)
    assert submitted(repository, tmp_path, receipt, code="import sys; sys.exit(3)") == receipt.result


def test_no_result_is_a_failure_with_the_end_of_the_log(repository, tmp_path):
    code = "import os, sys; print(os.environ['FROM_CALLER'], sys.argv[1]); print('the reason', file=sys.stderr)"
    log = tmp_path / "logs" / "job.log"
    run_submit([sys.executable, "-c", code, "; touch /should-not-exist"], {"FROM_CALLER": "here"}, log=log)
    with pytest.raises(SparkJobFailed, match="the reason") as caught:
        read_outcome(repository, read_receipt(tmp_path / "receipt.json"), KEY, RestoreResult, log_tail=tail(log))
    assert "here ; touch /should-not-exist" in str(caught.value.facts["log_tail"])


def test_the_job_gets_the_environment_it_is_given_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "canary")
    log = tmp_path / "logs" / "job.log"
    shown = "import os; print(sorted(os.environ.items()))"
    run_submit([sys.executable, "-c", shown], {"FROM_CALLER": "here", "LC_CTYPE": "C.UTF-8"}, log=log)
    assert tail(log) == "[('FROM_CALLER', 'here'), ('LC_CTYPE', 'C.UTF-8')]"


def test_what_lies_where_the_result_belongs_is_not_believed_unless_the_job_has_told_of_it(repository, tmp_path):
    stored(repository)
    with pytest.raises(SparkJobFailed, match=f"ended without its result {KEY}"):
        submitted(repository, tmp_path, None)


@pytest.mark.parametrize("key", [KEY, "a/work/r/load-result.0002.json"])
def test_another_result_than_the_job_s_is_refused_by_its_name(repository, tmp_path, key):
    mine = JobReceipt(result=ArtifactRef.of(key, codec.dumps(RESULT)), failure=None)
    stored(repository, codec.dumps(replace(RESULT, seconds=9.0)), key)
    with pytest.raises(Damaged, match=key):
        submitted(repository, tmp_path, mine)


def test_the_job_s_own_error_is_raised_again(repository, tmp_path):
    cause = Damaged("a file is broken", next_step="choose another", key="k", offset=5)
    stored(repository)
    with pytest.raises(Damaged) as caught:
        submitted(repository, tmp_path, JobReceipt(result=None, failure=JobFailure.of(cause)))
    assert (caught.value.reason, caught.value.next_step) == ("a file is broken", "choose another")
    assert caught.value.facts == {"key": "k", "offset": "5"}


def test_an_unknown_error_becomes_the_nearest_known(repository):
    failure = JobFailure(error="RecoveryError.__init__", reason="r", next_step="n", facts={})
    with pytest.raises(SparkJobFailed, match="r"):
        read_outcome(repository, JobReceipt(result=None, failure=failure), KEY, RestoreResult)


def test_a_result_of_something_else_is_damaged(repository, tmp_path):
    with pytest.raises(Damaged):
        submitted(repository, tmp_path, stored(repository, b'{"ranges": []}'))


def test_a_result_is_created_once(repository):
    repository.create(KEY, codec.dumps(RESULT))
    with pytest.raises(AlreadyExists):
        repository.create(KEY, b"{}")


def test_a_command_that_is_not_there(tmp_path):
    with pytest.raises(ConfigInvalid, match="cannot be started"):
        run_submit(["/no/such/spark-submit"], {}, log=tmp_path / "l")


def driver(tmp_path, receipt, *, after):
    """What a driver does that tells ``receipt``, and then still does ``after``."""
    told = tmp_path / "told.json"
    told.write_bytes(codec.dumps(receipt))
    return (
        "import os, pathlib, sys, time\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "(here / 'pid').write_text(str(os.getpid()))\n"
        f"pathlib.Path({str(told)!r}).rename(here / 'receipt.json')\n"
        f"{after}\n"
        "(here / 'stopped').touch()\n"
    )


def test_a_result_is_taken_before_the_process_has_stopped_which_then_ends_by_itself(repository, tmp_path):
    code = driver(tmp_path, stored(repository), after="[time.sleep(0.02) for _ in range(500) if not (here / 'go').exists()]")
    run_submit([sys.executable, "-c", code], {}, log=tmp_path / "log", receipt=tmp_path / "receipt.json")
    left = psutil.Process(int((tmp_path / "pid").read_text()))
    assert left.is_running()
    assert not (tmp_path / "stopped").exists()
    (tmp_path / "go").touch()
    for thread in threading.enumerate():
        if thread.name == "spark-stop":
            thread.join(20)
    assert (tmp_path / "stopped").exists()
    assert not left.is_running(), "not even as a zombie"


def test_a_failure_is_taken_when_the_process_has_ended(tmp_path):
    failed = JobReceipt(result=None, failure=JobFailure.of(Damaged("a file is broken", next_step="choose another")))
    code = driver(tmp_path, failed, after="time.sleep(0.5); print('the last word')")
    run_submit([sys.executable, "-c", code], {}, log=tmp_path / "log", receipt=tmp_path / "receipt.json")
    assert (tmp_path / "stopped").exists()
    assert tail(tmp_path / "log") == "the last word"


def test_the_program_does_not_end_before_what_it_submitted(repository, tmp_path):
    code = driver(tmp_path, stored(repository), after="time.sleep(1)")
    caller = (
        "import sys,pathlib\n"
        "from streams_recovery.engine.child_process import run_submit\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        f"run_submit([sys.executable,'-c',{code!r}], {{}}, log=here / 'log', receipt=here / 'receipt.json')\n"
        "assert not (here / 'stopped').exists()\n"
    )
    subprocess.run([sys.executable, "-c", caller], check=True, env={"PYTHONPATH": str(PROJECT / "plugins")}, timeout=60)
    assert (tmp_path / "stopped").exists()


def test_an_interruption_ends_the_job_and_what_it_started(tmp_path):
    pids = tmp_path / "pids"
    grandchild = f"import os,time; open({str(pids)!r},'a').write(str(os.getpid())+' '); time.sleep(60)"
    child = f"import subprocess,sys,signal; subprocess.run([sys.executable,'-c',{grandchild!r}])"
    caller = (
        "import sys,pathlib\n"
        "from streams_recovery.engine.child_process import run_submit\n"
        f"run_submit([sys.executable,'-c',{child!r}], {{}}, log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
    )
    # Not sys.path: what other tests of this process have put there is not for a program of another one.
    environment = {"PYTHONPATH": str(PROJECT / "plugins")}
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-c", caller], stderr=errors, env=environment)
    while not (pids.exists() and pids.read_text().endswith(" ")):
        assert process.poll() is None, (tmp_path / "errors").read_text() + (tmp_path / "log").read_text()
        time.sleep(0.05)
    pid = int(pids.read_text())
    process.send_signal(2)
    process.wait(20)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
