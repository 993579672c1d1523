from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import JobOrder
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.spark_home import find_spark_home
from streams_recovery.engine.spark_submit import JobFiles, spark_call, submit_argv

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
