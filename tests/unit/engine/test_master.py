"""On a cluster nobody may listen to what Spark's driver and workers say, or take part in it, unless the configuration says so.

How a job is submitted to a ``k8s://`` master: what a driver in a pod says of itself, and what stays as the cluster is configured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.jobs.spec import JobOrder
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.master import is_local, kubernetes_settings, local_cores, rpc_settings, shuffle_partitions, spark_defaults
from streams_recovery.engine.spark_submit import JobFiles, spark_call, submit_argv

REMOTE = ["spark://localhost:7077", "spark://local[2]:7077", "yarn", "k8s://https://cluster:6443", "", "local[x]", "locally"]


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[1]", 1), ("local[8]", 8), ("local[4,3]", 4), ("local-cluster[2,3,1024]", 6), ("local[*]", os.cpu_count())],
)
def test_cores_of_a_local_master(master: str, cores: int) -> None:
    assert is_local(master)
    assert local_cores(master) == cores
    assert shuffle_partitions(master) == 2 * cores


@pytest.mark.parametrize("master", REMOTE)
def test_what_runs_elsewhere(master: str) -> None:
    assert not is_local(master)
    assert local_cores(master) is None
    assert shuffle_partitions(master) == 32


LOCAL = ["local", "local[2]", "local[*]", "local-cluster[2,1,1024]"]
CLUSTER = "spark://master:7077"
ON = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
SECRET = {"spark.authenticate.secret": "canary-17aa"}


@pytest.mark.fault("F61")
@pytest.mark.parametrize("master", [CLUSTER, "spark://one:7077,two:7077", "something://else"])
@pytest.mark.parametrize(
    "defaults", [{}, {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}, {"spark.authenticate.secret": ""}]
)
def test_a_cluster_without_a_secret_is_refused(master: str, defaults: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match=r"no spark\.authenticate\.secret") as caught:
        rpc_settings(master, defaults, allow_insecure=False)
    assert master in str(caught.value)
    assert "spark.allow_insecure_rpc" in caught.value.next_step


def test_a_cluster_with_a_secret_is_spoken_to_encrypted_whatever_else_is_not_said() -> None:
    assert rpc_settings(CLUSTER, SECRET, allow_insecure=False) == ON
    assert "canary" not in str(rpc_settings(CLUSTER, SECRET, allow_insecure=False))


@pytest.mark.parametrize("master", ["yarn", "k8s://https://cluster:6443"])
def test_a_cluster_that_makes_a_secret_for_each_job_needs_none(master: str) -> None:
    assert rpc_settings(master, {}, allow_insecure=False) == ON


@pytest.mark.fault("F61")
@pytest.mark.parametrize("master", [CLUSTER, "yarn", "k8s://https://cluster:6443"])
@pytest.mark.parametrize("name", ["spark.authenticate", "spark.network.crypto.enabled"])
def test_what_is_turned_off_is_not_silently_turned_on(master: str, name: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"turns {name} off") as caught:
        rpc_settings(master, {**SECRET, name: "False"}, allow_insecure=False)
    assert "canary" not in str(caught.value)


def test_tls_is_encryption_too() -> None:
    tls = {**SECRET, "spark.ssl.rpc.enabled": "true", "spark.network.crypto.enabled": "false"}
    assert rpc_settings(CLUSTER, tls, allow_insecure=False) == {"spark.authenticate": "true", "spark.io.encryption.enabled": "true"}


@pytest.mark.parametrize("master", [CLUSTER, "yarn", "k8s://https://cluster:6443"])
def test_the_configuration_may_say_that_the_network_is_trusted(master: str) -> None:
    assert rpc_settings(master, {"spark.authenticate": "false"}, allow_insecure=True) == {}


@pytest.mark.parametrize("master", LOCAL)
def test_on_this_machine_there_is_no_network(master: str) -> None:
    assert rpc_settings(master, {}, allow_insecure=False) == {}


# spark-defaults.conf


def test_defaults_are_read_as_spark_reads_them(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n! another\n\n  spark.authenticate   true \nspark.authenticate.secret=a=b c\nspark.one: two\nspark.three = four\nspark.alone\n"
    )
    assert spark_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "a=b c",
        "spark.one": "two",
        "spark.three": "four",
    }


def test_no_file_is_no_setting(tmp_path: Path) -> None:
    assert spark_defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}
    assert spark_defaults({}) == {}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").mkdir()
    with pytest.raises(ConfigInvalid, match=r"spark-defaults\.conf cannot be read"):
        spark_defaults({"SPARK_CONF_DIR": str(tmp_path)})


MASTER = "k8s://https://kubernetes.default.svc:443"
IMAGE = {"spark.kubernetes.container.image": "registry.example.com/spark:4.2.0"}
POD = {
    "STREAMS_RECOVERY_POD_NAME": "orders-backup-29381-x7k2p",
    "STREAMS_RECOVERY_POD_NAMESPACE": "streams",
    "STREAMS_RECOVERY_POD_IP": "10.42.0.17",
}
SAID = {
    "spark.kubernetes.driver.pod.name": "orders-backup-29381-x7k2p",
    "spark.kubernetes.namespace": "streams",
    "spark.driver.host": "10.42.0.17",
}
Submitted = Callable[[str], list[str]]


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    """The command line of a restore's load, submitted from a pod with these lines in ``spark-defaults.conf``."""

    def argv(lines: str) -> list[str]:
        (tmp_path / "spark-defaults.conf").write_text(lines)
        call = spark_call(
            "restore",
            order=JobOrder(spec=ArtifactRef.of("a/spec.json", b"{}"), result_key="a/result.json"),
            location=StorageLocation(backend="s3", bucket="b", prefix="p"),
            files=JobFiles(package=Path("/p/package.zip"), secrets=Path("/s/secrets"), receipt=Path("/p/receipt.json")),
            master=MASTER,
        )
        return submit_argv(call, MASTER)

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name, value in POD.items():
        monkeypatch.setenv(name, value)
    return argv


def settings_of(argv: list[str]) -> dict[str, str]:
    """The ``--conf`` options of a command line."""
    settings = (after.partition("=") for option, after in pairwise(argv) if option == "--conf")
    return {name: value for name, _, value in settings}


def test_a_driver_in_a_pod_is_named_as_the_owner_of_its_executors(submitted: Submitted) -> None:
    argv = submitted("spark.kubernetes.container.image registry.example.com/spark:4.2.0\n")
    assert argv[1:5] == ["--master", MASTER, "--deploy-mode", "client"]
    assert argv[argv.index("--py-files") + 1] == "/p/package.zip"
    settings = settings_of(argv)
    assert settings.items() >= SAID.items()
    # As on every cluster: nobody listens, and a load is tried once.
    assert (settings["spark.authenticate"], settings["spark.network.crypto.enabled"]) == ("true", "true")
    assert (settings["spark.task.maxFailures"], settings["spark.speculation"]) == ("1", "false")


def test_what_the_cluster_needs_is_left_to_its_defaults(submitted: Submitted) -> None:
    lines = "spark.kubernetes.container.image i:1\nspark.kubernetes.namespace jobs\nspark.kubernetes.executor.podTemplateFile /t/executor.yaml\n"
    settings = settings_of(submitted(lines))
    # spark-submit reads these itself; an option would take their place.
    assert not {name for name in settings if name.startswith("spark.kubernetes.")} - {"spark.kubernetes.driver.pod.name"}


def test_no_argument_carries_a_secret_or_where_one_lies(submitted: Submitted) -> None:
    argv = " ".join(submitted("spark.kubernetes.container.image i:1\nspark.authenticate.secret canary-17aa\n"))
    assert "canary" not in argv
    assert "/s/secrets" not in argv


@pytest.mark.parametrize("defaults", [{}, {"spark.kubernetes.container.image": ""}])
def test_a_cluster_without_an_image_is_refused(defaults: dict[str, str]) -> None:
    with pytest.raises(ConfigInvalid, match="names no image") as caught:
        kubernetes_settings(MASTER, defaults, POD)
    assert caught.value.facts["master"] == MASTER
    assert "spark.kubernetes.container.image" in caught.value.next_step


def test_an_image_for_executors_alone_will_do() -> None:
    assert kubernetes_settings(MASTER, {"spark.kubernetes.executor.container.image": "i:1"}, POD) == SAID


def test_a_driver_outside_says_nothing_of_a_pod() -> None:
    assert kubernetes_settings(MASTER, IMAGE, {}) == {}
    assert kubernetes_settings(MASTER, IMAGE, dict.fromkeys(POD, "")) == {}


def test_an_address_of_version_6_stands_in_brackets() -> None:
    found = kubernetes_settings(MASTER, IMAGE, {"STREAMS_RECOVERY_POD_IP": "fd00::17"})
    assert found == {"spark.driver.host": "[fd00::17]"}


@pytest.mark.parametrize("name", SAID)
def test_what_the_defaults_say_stays(name: str) -> None:
    assert kubernetes_settings(MASTER, {**IMAGE, name: "mine"}, POD) == {key: value for key, value in SAID.items() if key != name}


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077", "yarn"])
def test_other_masters_know_nothing_of_pods(master: str) -> None:
    assert kubernetes_settings(master, {}, POD) == {}
