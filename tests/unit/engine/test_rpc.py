"""On a cluster nobody may listen to what Spark's driver and workers say, or take part in it, unless the configuration says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.rpc import rpc_settings, spark_defaults

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
