"""How a job is submitted: arguments, environment, secrets, and what counts as its outcome."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from spark_jobs.access import SECRETS_FILE, JobAccess
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, Damaged, SparkJobFailed
from streams_recovery.core.jobs.spec import JobFailure, JobOrder, JobReceipt, RestoreResult
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine import spark_submit
from streams_recovery.engine.spark_home import find_spark_home
from streams_recovery.engine.spark_submit import JobFiles, driver_environment, read_outcome, secrets_file, spark_call, submit_argv
from streams_recovery.engine.submitter import run_submit, tail
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.storage.credentials import access_key
from streams_recovery.storage.objects import read_receipt, write_local
from streams_recovery.storage.repository import AlreadyExists, Repository
from tests.support.project import PROJECT

SPEC = ArtifactRef.of("a/spec.json", b"{}")
LOCATION = StorageLocation(backend="s3", bucket="b", prefix="p")


@pytest.fixture(autouse=True)
def secret(tmp_path, monkeypatch):
    """This machine's settings for a cluster."""
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate.secret canary-17aa\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_workers_give_their_memory_back_and_map_no_buffer_anew():
    given = {
        "MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20), "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    call = call_for()
    assert given.items() <= call.environment.items(), "of a local master they are the driver's children"
    assert {f"spark.executorEnv.{name}": value for name, value in given.items()}.items() <= call.conf.items()


def call_for(job="backup", master="local[2]", **more):
    files = JobFiles(package=Path("/p/package.zip"), secrets=Path("/s/secrets"), receipt=Path("/p/receipt.json"))
    return spark_call(job, order=JobOrder(spec=SPEC, result_key="a/result.json"), location=LOCATION, files=files, master=master, **more)


@pytest.mark.fault("F4")
@pytest.mark.parametrize("job", ["backup", "restore", "verify"])
def test_the_application_exists_and_speculation_is_off(job):
    call = call_for(job)
    assert call.application.is_file()
    assert call.application.name == f"{job}.py"
    assert call.conf["spark.speculation"] == "false"


@pytest.mark.fault("F4")
def test_only_a_restore_forbids_a_second_attempt():
    assert call_for("restore").conf["spark.task.maxFailures"] == "1"
    assert "spark.task.maxFailures" not in call_for("backup").conf


def test_arguments_carry_the_location_and_what_the_specification_must_be_as_json():
    call = call_for()
    arguments = dict(zip(call.arguments[::2], call.arguments[1::2], strict=True))
    assert set(arguments) == {"--spec", "--result", "--repository", "--receipt"}
    assert json.loads(arguments["--spec"]) == {"key": "a/spec.json", "sha256": hashlib.sha256(b"{}").hexdigest()}
    assert (arguments["--result"], arguments["--receipt"], call.receipt) == ("a/result.json", "/p/receipt.json", Path("/p/receipt.json"))
    assert json.loads(arguments["--repository"])["bucket"] == "b"


def test_a_local_master_stays_on_loopback_and_uses_this_interpreter():
    call = call_for()
    assert call.conf["spark.driver.host"] == "127.0.0.1"
    assert call.environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert call.environment["PYSPARK_PYTHON"] == sys.executable
    assert call.environment["STREAMS_RECOVERY_SECRETS_FILE"] == "/s/secrets"


def test_a_local_master_keeps_records_where_no_other_user_reads_them_and_they_do_not_stay(secret):
    assert call_for().conf["spark.local.dir"] == "/p"
    assert "spark.local.dir" not in call_for(master="spark://cluster:7077").conf, "its workers have their own"
    secret.write_text("spark.local.dir /disk\n")
    assert "spark.local.dir" not in call_for().conf


def test_a_remote_master_is_reached_as_the_cluster_is_configured(monkeypatch):
    # A session in this process may have set it.
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    call = call_for(master="spark://cluster:7077")
    assert "spark.driver.host" not in call.conf
    assert "SPARK_LOCAL_IP" not in call.environment
    assert call.environment["PYSPARK_PYTHON"] == "python3"


def test_the_command_line_is_a_list_with_the_application_behind_its_options():
    call = call_for()
    argv = submit_argv(call, "local[2]", extra={"spark.executor.memory": "2g", "spark.speculation": "true"})
    assert argv[0] == str(find_spark_home() / "bin" / "spark-submit")
    assert Path(argv[0]).is_file()
    assert argv[argv.index("--master") + 1] == "local[2]"
    assert argv[argv.index("--py-files") + 1] == "/p/package.zip"
    assert "spark.executor.memory=2g" in argv
    assert "spark.speculation=false" in argv
    assert "spark.speculation=true" not in argv
    assert argv[argv.index(str(call.application)) + 1 :] == list(call.arguments)


def test_spark_s_page_and_event_log_are_the_user_s_choice(secret):
    assert call_for().conf["spark.ui.enabled"] == "false"
    secret.write_text("spark.ui.enabled true\nspark.eventLog.enabled true\n")
    chosen = call_for().conf
    assert "spark.ui.enabled" not in chosen
    assert chosen["spark.ui.showConsoleProgress"] == "false"
    assert not any(name.startswith("spark.eventLog") for name in chosen)


def test_shuffles_are_cut_by_the_cores_of_a_local_master():
    assert call_for(master="local[3]").conf["spark.sql.shuffle.partitions"] == "6"
    assert call_for(master="spark://cluster:7077").conf["spark.sql.shuffle.partitions"] == "32"


@pytest.mark.fault("F61")
def test_a_job_is_not_submitted_to_a_cluster_that_anybody_could_listen_to(secret):
    call = call_for(master="spark://cluster:7077")
    assert (call.conf["spark.authenticate"], call.conf["spark.network.crypto.enabled"]) == ("true", "true")
    assert "canary" not in " ".join(submit_argv(call, "spark://cluster:7077"))
    secret.unlink()
    with pytest.raises(ConfigInvalid, match=r"spark://cluster:7077.*spark\.authenticate\.secret"):
        call_for(master="spark://cluster:7077")
    assert "spark.authenticate" not in call_for(master="spark://cluster:7077", allow_insecure_rpc=True).conf
    assert "spark.authenticate" not in call_for().conf


SECRETS = [
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__API_AUTH__JWT_SECRET",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW_CONN_KAFKA_DEFAULT",
    "AIRFLOW_VAR_SOMETHING",
    "POSTGRES_PASSWORD",
    "S3_SECRET_KEY",
    "VAULT_TOKEN",
    "GITHUB_TOKEN",
    "_AIRFLOW_PROCESS_CONTEXT",
    "STREAMS_RECOVERY_CONFIG_DIR",
]
NEEDED = [
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "JDK_JAVA_OPTIONS", "LD_LIBRARY_PATH"),
    *("SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "PYSPARK_PYTHON", "PYTHONPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KRB5CCNAME", "AWS_PROFILE", "SSL_CERT_FILE", "https_proxy", "NO_PROXY"),
    *("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS"),
    *("AWS_ENDPOINT_URL_KMS", "AZURE_AUTHORITY_HOST", "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS"),
]


@pytest.mark.fault("F61")
def test_what_only_the_submitter_needs_stays_with_it() -> None:
    assert driver_environment(dict.fromkeys([*SECRETS, *NEEDED], "canary")) == dict.fromkeys(NEEDED, "canary")


class _Identities(BaseHTTPRequestHandler):
    """The service of a cloud that tells a program who it is. It has a token for nobody."""

    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path.partition("?")[0], self.headers["x-identity-header"]))
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Into no log."""


# Where the library that opens buckets asks for the machine's identity, by the variables of each cloud.
IDENTITIES = [
    ("azure", {"IDENTITY_ENDPOINT": "http://{}/msi/token", "IDENTITY_HEADER": "canary"}, ("/msi/token", "canary")),
    ("gcs", {"GCE_METADATA_HOST": "{}"}, ("/computeMetadata/v1/instance/service-accounts/default/token", None)),
    ("gcs", {"GCE_METADATA_ROOT": "{}"}, ("/computeMetadata/v1/instance/service-accounts/default/token", None)),
]
_LOOK = """import sys
from streams_recovery.storage.open_store import open_bucket
from streams_recovery.core.repository.layout import StorageLocation
location = StorageLocation(backend=sys.argv[1], bucket="b", prefix="p", account="a" if sys.argv[1] == "azure" else None)
list(open_bucket(location, None, retries=0, timeout_seconds=5).list())"""


@pytest.mark.parametrize(("backend", "variables", "asked"), IDENTITIES)
def test_a_job_is_who_its_submitter_is_in_every_cloud(backend, variables, asked, tmp_path):
    # A home without a key of Google, which would be taken first.
    mine = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(PROJECT / "plugins"), "NO_PROXY": "127.0.0.1"}
    with ThreadingHTTPServer(("127.0.0.1", 0), _Identities) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _Identities.asked.clear()
        given = {name: text.format(f"127.0.0.1:{server.server_port}") for name, text in variables.items()}
        environment = driver_environment({**mine, **given})
        done = subprocess.run(
            [sys.executable, "-c", _LOOK, backend], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        server.shutdown()
    assert asked in _Identities.asked, done.stderr[-600:]


CONNECTION = KafkaConnection(bootstrap_servers="b:1", properties={"sasl.password": "hunter2"})
CREDENTIALS = access_key("id", "hunter3")
REPOSITORY = codec.dumps(StorageLocation(backend="s3", bucket="b")).decode()


@pytest.mark.parametrize("credentials", [CREDENTIALS, None])
def test_a_job_reads_what_the_submitter_wrote(tmp_path, credentials):
    with secrets_file(CONNECTION, credentials, directory=tmp_path) as path:
        access = JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})
    assert (access.connection, access.credentials, access.location.bucket) == (CONNECTION, credentials, "b")
    assert "hunter" not in repr(access)


def test_both_sides_name_the_same_variable():
    assert spark_submit.SECRETS_FILE == SECRETS_FILE


@pytest.mark.fault("F61")
def test_the_file_is_its_owner_s_and_is_gone_afterwards_also_after_an_error(tmp_path):
    directory = tmp_path / "secrets"
    directory.mkdir()

    def fail():
        with secrets_file(CONNECTION, None, directory=directory) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(directory.iterdir()) == []


def test_a_file_that_others_can_read_is_refused(tmp_path):
    with secrets_file(CONNECTION, None, directory=tmp_path) as path:
        path.chmod(0o640)
        with pytest.raises(ConfigInvalid, match="can be read by others"):
            JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})


@pytest.mark.parametrize("content", ['{"kafka": {"password": "hunter2"}, "storage": null}', '["hunter2"]', '{"hunter2'])
def test_what_is_no_secrets_file_is_refused_without_quoting_it(tmp_path, content):
    path = tmp_path / "s"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ConfigInvalid) as caught:
        JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: str(path)})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_file_at_all_is_refused():
    with pytest.raises(ConfigInvalid, match=SECRETS_FILE):
        JobAccess.from_environment(REPOSITORY, {})
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        JobAccess.from_environment(REPOSITORY, {SECRETS_FILE: "/nowhere/at/all"})


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
        write_local(tmp_path / "receipt.json", receipt)
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
        "from streams_recovery.engine.submitter import run_submit\n"
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
        "from streams_recovery.engine.submitter import run_submit\n"
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
