"""How Airflow's own operator starts spark-submit for us: with the real hook of the provider, and a program in the place of spark-submit."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.backup import Spark
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import JobReceipt, VerifyResult
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob
from streams_recovery.hooks.connections import AirflowConnections
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.operators.spark import CompareRecordsOperator, _AirflowSubmit
from streams_recovery.storage.credentials import access_key
from streams_recovery.storage.repository import Repository

CANARY = "canary-61c0"
KEY = "a/result.json"
RESULT = codec.dumps(VerifyResult(partitions=(), keys=(), seconds=0.5))
RECEIPT = JobReceipt(result=ArtifactRef.of(KEY, RESULT), failure=None)
# Notes what it was given, and leaves a result and a receipt as a job does.
SUBMIT = """#!{python}
import json, os, pathlib, sys
name = os.environ.get("STREAMS_RECOVERY_SECRETS_FILE")
secrets = pathlib.Path(name) if name else None
found = {{
    "argv": sys.argv[1:],
    "environment": dict(os.environ),
    "secrets": secrets and secrets.read_text(),
    "mode": secrets and secrets.stat().st_mode & 0o777,
}}
pathlib.Path({seen!r}).write_text(json.dumps(found))
arguments = dict(zip(sys.argv, sys.argv[1:]))
result = pathlib.Path(json.loads(arguments["--repository"])["path"]) / arguments["--result"]
result.parent.mkdir(parents=True, exist_ok=True)
result.write_bytes({result!r})
pathlib.Path(arguments["--receipt"]).write_bytes({receipt!r})
print("done")
"""


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a job by Airflow's hook on a connection; returns what spark-submit was given."""
    seen = tmp_path / "seen.json"
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SUBMIT.format(python=sys.executable, seen=str(seen), result=RESULT, receipt=codec.dumps(RECEIPT)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    (tmp_path / "spark-defaults.conf").write_text("spark.kubernetes.container.image registry.example.com/recovery:1\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW_CONN_OTHER", "POSTGRES_PASSWORD", "S3_SECRET_KEY"):
        monkeypatch.setenv(name, CANARY)

    def run(*, allow_insecure_rpc: bool = False, **connection: object) -> dict[str, Any]:
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps({"conn_type": "spark", **connection}))
        operator = CompareRecordsOperator(application_name="orders")
        repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
        _AirflowSubmit(operator, {}, Spark(connection="spark_test", allow_insecure_rpc=allow_insecure_rpc)).submit(
            SparkJob(
                name="verify",
                spec=ArtifactRef.of("a/spec.json", b"{}"),
                result_key=KEY,
                repository=repository,
                connection=KafkaConnection(bootstrap_servers="b:1", properties={"sasl.password": CANARY}),
                credentials=access_key("id", CANARY),
            )
        )
        return dict(json.loads(seen.read_text()))

    return run


MASTERS = [
    ({"host": "local[2]"}, "local[2]"),
    ({"host": "k8s://https://cluster.example.com", "port": 6443}, "k8s://https://cluster.example.com:6443"),
    ({"host": "k8s://https://cluster.example.com", "port": 6443, "extra": {"namespace": "jobs"}}, "k8s://https://cluster.example.com:6443"),
    ({"host": "yarn"}, "yarn"),
]


@pytest.mark.parametrize(("connection", "master"), MASTERS)
def test_the_driver_is_told_where_its_secrets_are_whatever_the_master(submitted: Any, connection: dict[str, object], master: str) -> None:
    found = submitted(**connection)
    assert found["argv"][found["argv"].index("--master") + 1] == master
    assert found["argv"][found["argv"].index("--deploy-mode") + 1] == "client"
    assert CANARY in (found["secrets"] or "")
    assert found["mode"] == 0o600
    assert found["environment"]["STREAMS_RECOVERY_SUBMITTER"] == str(os.getpid())
    assert not any("Env." in argument and "executorEnv" not in argument for argument in found["argv"])


@pytest.mark.fault("F61")
@pytest.mark.parametrize(("connection", "master"), MASTERS)
def test_the_driver_gets_nothing_that_only_airflow_needs(submitted: Any, connection: dict[str, object], master: str) -> None:
    found = submitted(**connection)
    assert CANARY not in json.dumps(found["environment"])
    assert CANARY not in json.dumps(found["argv"])
    assert not [name for name in found["environment"] if name.startswith("AIRFLOW")]
    for name in ("PATH", "HOME"):
        assert found["environment"][name] == os.environ[name]


def test_without_the_provider_for_kubernetes_it_is_named(submitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_submit, "kube_client")
    with pytest.raises(ConfigInvalid, match="provider for Kubernetes") as caught:
        submitted(host="k8s://https://cluster.example.com", port=6443)
    assert "apache-airflow-providers-cncf-kubernetes" in caught.value.next_step
    assert submitted(host="local[2]")["secrets"]


@pytest.mark.parametrize(
    "connection",
    [
        {"conn_type": "spark", "host": "local[2]"},
        {"conn_type": "spark", "host": "yarn"},
        {"conn_type": "spark", "host": "spark-master", "port": 7077},
        {"conn_type": "spark", "host": "spark://spark-master", "port": 7077},
        {"conn_type": "spark", "host": "spark://one:7077,two:7077"},
        {"conn_type": "spark", "host": "k8s://https://cluster", "port": 6443},
        {"conn_type": "k8s", "host": "https://cluster", "port": 6443},
        "spark://spark-master:7077",
        "spark://local%5B2%5D?deploy-mode=client",
        "spark://k8s%3A%2F%2Fhttps%3A%2F%2Fcluster:6443",
    ],
)
def test_the_master_is_the_one_that_airflow_submits_to(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", connection if isinstance(connection, str) else json.dumps(connection))
    master = AirflowConnections().spark_master("spark_test")
    assert master == spark_submit.SparkSubmitHook(conn_id="spark_test")._connection["master"]
    assert EnvironmentConnections(os.environ).spark_master("spark_test") == master


@pytest.mark.parametrize("connections", [AirflowConnections(), EnvironmentConnections(os.environ)])
def test_a_connection_without_a_host_is_no_master(connections: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps({"conn_type": "spark"}))
    with pytest.raises(ConfigInvalid, match="has no host"):
        connections.spark_master("spark_test")


@pytest.mark.fault("F61")
def test_a_cluster_that_anybody_could_listen_to_gets_no_job_unless_the_configuration_says_so(submitted: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"spark://master:7077.*no spark\.authenticate\.secret"):
        submitted(host="spark://master", port=7077)
    assert not (tmp_path / "seen.json").exists()
    assert submitted(host="spark://master", port=7077, allow_insecure_rpc=True)["secrets"]
    (tmp_path / "spark-defaults.conf").write_text("spark.authenticate.secret rosebud-8d\n")
    found = submitted(host="spark://master", port=7077)
    assert {"spark.authenticate=true", "spark.network.crypto.enabled=true"} <= set(found["argv"])
    assert "rosebud" not in json.dumps(found)
