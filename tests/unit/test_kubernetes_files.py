"""What lies beside chart and manifests agrees with the project: the image, the executor of Spark, the values for Airflow's chart; and rights are those that
the product asks for, and no more.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pyspark
import pytest
import yaml

from streams_recovery.config.runs.process import ProcessRuns
from streams_recovery.core.kubernetes.controllers import rights_needed
from streams_recovery.core.kubernetes.workload import WorkloadName
from streams_recovery.core.version import VERSION
from tests.support.compose_files import DOCKERFILES, LOCK, SERVICES
from tests.support.deploy.commands import CONFIGS
from tests.support.deploy.documents import DEPLOY, MANIFESTS, containers, documents_in, granted, needed, pod_spec, rules_of
from tests.support.kubernetes.objects import RIGHTS, uncommented
from tests.support.project import PROJECT

IMAGE = DOCKERFILES["image"]
CHART = DEPLOY / "helm" / "kafka-streams-recovery"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
AIRFLOW = yaml.safe_load((DEPLOY / "airflow-values.yaml").read_text())
EXECUTOR = PROJECT / "docker" / "spark" / "executor.py"
# What Spark's driver sets in the pod of an executor.
SET = {
    "SPARK_HOME": "/spark",
    "JAVA_HOME": "/java",
    "SPARK_CONF_DIR": "/opt/spark/conf",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.42.0.17:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.42.0.18",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "exec-1",
    **{f"SPARK_JAVA_OPT_{number}": f"-Doption={number}" for number in range(11)},
}


# The image


def test_the_image_finds_the_configuration_files_where_the_pods_have_them():
    said = dict(re.findall(r"^ENV (\w+)=(\S+)$", IMAGE, re.M))
    assert said["STREAMS_RECOVERY_CONFIG_DIR"] == CONFIGS
    # The user of Airflow's image.
    assert "USER" not in re.findall(r"^[A-Z]+", IMAGE, re.M)
    assert VALUES["podSecurityContext"]["runAsUser"] == 50000


def test_chart_image_and_package_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["appVersion"], AIRFLOW["images"]["airflow"]["tag"], AIRFLOW["defaultAirflowTag"]) == (VERSION, VERSION, VERSION)
    assert AIRFLOW["images"]["airflow"]["repository"] == VALUES["image"]["repository"]
    makefile = subprocess.run(["make", "--dry-run", "image"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert f"--tag {VALUES['image']['repository']}:{VERSION} " in makefile


# Spark's executor


def executor(environment, *arguments):
    """What the pod of an executor would become: a program in place of Java prints its arguments."""
    return subprocess.run([sys.executable, str(EXECUTOR), *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def java(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "java"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    return tmp_path


def test_an_executor_is_started_from_what_the_driver_has_set(java):
    done = executor({**SET, "JAVA_HOME": str(java), "SPARK_CLASSPATH": "/more.jar"}, "executor")
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)
    # In the order of their numbers: 10 comes after 9.
    assert words[:11] == [f"-Doption={number}" for number in range(11)]
    assert words[11:13] == ["-Xms1024m", "-Xmx1024m"]
    assert words[13:15] == ["-cp", "/opt/spark/conf:/more.jar:/spark/jars/*"]
    options = dict(zip(words[16::2], words[17::2], strict=True))
    assert options["--driver-url"] == SET["SPARK_DRIVER_URL"]
    assert options["--podName"] == "exec-1"
    assert set(options.values()) <= set(SET.values())


def test_the_class_and_its_options_are_those_of_the_locked_spark(java):
    words = json.loads(executor({**SET, "JAVA_HOME": str(java)}, "executor").stdout)
    name, options = words[15], words[16::2]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    assert f"-{LOCK['pyspark']}.jar" in jar.name
    with zipfile.ZipFile(jar) as archive:
        code = archive.read(name.replace(".", "/") + "$.class")
        variables = archive.read("org/apache/spark/deploy/k8s/Constants$.class")
    assert [option for option in options if option.encode() not in code] == []
    ours = set(SET) - {"SPARK_HOME", "JAVA_HOME", "SPARK_CONF_DIR"} - {f"SPARK_JAVA_OPT_{number}" for number in range(11)}
    assert [variable for variable in (*ours, "SPARK_JAVA_OPT_") if variable.encode() not in variables] == []


def test_an_executor_says_what_is_missing():
    done = executor({name: value for name, value in SET.items() if name != "SPARK_DRIVER_URL"}, "executor")
    assert (done.returncode, done.stdout) == (1, "")
    assert "SPARK_DRIVER_URL is not set" in done.stderr
    assert "usage" in executor(dict(os.environ), "driver").stderr


def test_the_pod_of_an_executor_runs_it():
    (pod,) = documents_in(DEPLOY / "spark" / "executor-pod.yaml")
    command = pod["spec"]["containers"][0]["command"]
    assert f"COPY docker/spark/{EXECUTOR.name} {Path(command[1]).parent}/" in DOCKERFILES["spark"]
    assert "!docker/spark/executor.py" in (PROJECT / ".dockerignore").read_text()


def test_the_chart_has_the_template_and_the_settings_that_are_there_without_it():
    assert (CHART / "files" / "executor-pod.yaml").read_text() == (DEPLOY / "spark" / "executor-pod.yaml").read_text()
    lines = [line.split() for line in (DEPLOY / "spark" / "spark-defaults.conf").read_text().splitlines() if line and line[0] != "#"]
    settings = dict(lines)
    assert settings.pop("spark.kubernetes.container.image").endswith(f"/spark:{LOCK['pyspark']}")
    assert settings == yaml.safe_load((CHART / "files" / "spark-defaults.yaml").read_text())


def test_a_driver_s_pod_names_the_variables_that_a_submission_reads():
    (pod,) = documents_in(DEPLOY / "spark" / "driver-pod.yaml")
    (container,) = pod["spec"]["containers"]
    kubernetes = importlib.import_module("streams_recovery.engine.master")
    wanted = {kubernetes.POD_NAME: "metadata.name", kubernetes.POD_NAMESPACE: "metadata.namespace", kubernetes.POD_IP: "status.podIP"}
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"] if "fieldRef" in one.get("valueFrom", {})}
    assert fields == wanted
    template = (CHART / "templates" / "_pod.tpl").read_text()
    assert all(f'"{name.removeprefix("STREAMS_RECOVERY_POD_")}" "{field}"' in template for name, field in wanted.items())
    # The KubernetesExecutor looks for this name.
    assert container["name"] == "base"


# Airflow's chart


def test_airflow_is_the_locked_one():
    assert AIRFLOW["airflowVersion"] == LOCK["apache-airflow"]


def test_airflow_s_components_find_the_configuration_files():
    (mount,) = AIRFLOW["volumeMounts"]
    assert mount["mountPath"] == CONFIGS
    assert [mount["name"]] == [volume["name"] for volume in AIRFLOW["volumes"]]


def test_airflow_s_chart_makes_no_user_whose_password_everybody_knows():
    for section in ("createUserJob", "webserver"):
        assert AIRFLOW[section]["defaultUser"] == {"enabled": False}


def test_airflow_s_chart_makes_no_database_whose_password_everybody_knows():
    assert AIRFLOW["postgresql"] == {"enabled": False}
    assert AIRFLOW["data"] == {"metadataSecretName": "streams-recovery-metadata"}


# What runs tasks and jobs, and how many seconds it has when it is told to end.
ENDS = {
    "compose": int(SERVICES["airflow-scheduler"].get("stop_grace_period", "10s").removesuffix("s")),
    "Airflow's chart": AIRFLOW["workers"]["terminationGracePeriodSeconds"],
    "the chart": VALUES["terminationGracePeriodSeconds"],
    **{
        file.name: pod_spec(document)["terminationGracePeriodSeconds"]
        for file in (*MANIFESTS.glob("*.yaml"), DEPLOY / "spark" / "driver-pod.yaml")
        for document, _ in containers(documents_in(file))
    },
}


@pytest.mark.parametrize("where", ENDS)
def test_a_run_that_is_told_to_end_has_the_time_to_bring_the_application_back(where):
    given = {name: field.default for name, field in ProcessRuns.model_fields.items()}
    job, lock = 20, 60
    assert ENDS[where] >= job + given["stop_timeout_seconds"] + given["start_timeout_seconds"] + lock


# Variables that the libraries take secrets from, and some that are called alike and are none.
SECRETS = [
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SSE_CUSTOMER_KEY_BASE64", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_MASTER_KEY"),
    *("AZURE_STORAGE_SAS_KEY", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_CONNECTION_STRING", "GOOGLE_SERVICE_ACCOUNT_KEY", "IDENTITY_HEADER"),
    *(
        "AIRFLOW__CORE__FERNET_KEY",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "AIRFLOW__SECRETS__BACKEND_KWARGS",
        "KEY_PASSPHRASE",
        "KAFKA_PASSWORD",
    ),
]
OPEN = [
    "TZ",
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "STREAMS_RECOVERY_SEAL_PUBLIC_KEY",
    "https_proxy",
]


def test_the_chart_takes_no_secret_as_a_value():
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(VALUES, schema)

    def is_taken(**variable: Any) -> bool:
        return not list(jsonschema.Draft7Validator(schema).iter_errors({**VALUES, "env": [variable]}))

    assert [name for name in SECRETS if is_taken(name=name, value="x")] == []
    assert [name for name in OPEN if not is_taken(name=name, value="x")] == []
    by_name = {"secretKeyRef": {"name": "s", "key": "k"}}
    assert all(is_taken(name=name, valueFrom=by_name) for name in SECRETS)


def test_connections_come_from_secrets_and_only_to_what_runs_tasks_and_triggers():
    for component in ("workers", "triggerer"):
        variables = {one["name"]: one for one in AIRFLOW[component]["env"]}
        assert json.loads(variables.pop("AIRFLOW_CONN_SPARK_DEFAULT")["value"]) == {"conn_type": "spark", "host": "local[2]"}
        assert {one["valueFrom"]["secretKeyRef"]["name"] for one in variables.values()} == {"streams-recovery-connections"}
    # The page has a key that only reads. Callbacks of DAGs, which the DAG processor runs, write alerts.
    for component, secret in (("apiServer", "streams-recovery-reading"), ("dagProcessor", "streams-recovery-connections")):
        one = AIRFLOW[component]["env"][0]
        assert (one["name"], one["valueFrom"]["secretKeyRef"]["name"]) == ("AIRFLOW_CONN_AWS_DEFAULT", secret)
    # Whoever writes signs, where there is a key.
    signs = {"secretKeyRef": {"name": "streams-recovery-connections", "key": "streams_recovery_seal", "optional": True}}
    for component, more in (("workers", [signs]), ("triggerer", [signs]), ("dagProcessor", [signs]), ("apiServer", [])):
        found = [one["valueFrom"] for one in AIRFLOW[component]["env"] if one["name"] == "AIRFLOW_CONN_STREAMS_RECOVERY_SEAL"]
        assert found == more, component
    assert not [one for one in AIRFLOW["env"] if one["name"].startswith("AIRFLOW_CONN_")]
    assert "secret" not in AIRFLOW


def test_no_pool_is_needed_because_no_task_names_one():
    for folder in ("dags", "plugins/streams_recovery/operators"):
        for path in (PROJECT / folder).rglob("*.py"):
            assert "pool=" not in path.read_text(), path


ORDERS = WorkloadName(kind="deployment", name="orders")
CHART_RIGHTS = DEPLOY / "helm" / "kafka-streams-recovery" / "files" / "workload-rights.yaml"
PARTS = {"delete": ("claims: delete",), "job": ("claims: job",), None: ()}


@pytest.mark.parametrize("claims", ["delete", "job", None])
@pytest.mark.parametrize("keda", [True, False])
def test_the_manifest_has_each_right_and_no_other(claims: Any, keda: bool) -> None:
    parts = (*PARTS[claims], *(("KEDA",) if keda else ()))
    documents = [one for one in yaml.safe_load_all(uncommented(RIGHTS.read_text(), parts)) if one]
    wanted = rights_needed(ORDERS, "shop", "orders-streams-recovery", stops=True, claims=claims, keda=keda)
    assert granted(rules_of(documents)) == needed(wanted)


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
@pytest.mark.parametrize("claims", ["delete", "job", None])
@pytest.mark.parametrize("keda", [True, False])
def test_the_chart_has_each_right_and_no_other(kind: Any, claims: Any, keda: bool) -> None:
    text = CHART_RIGHTS.read_text().replace("KIND", kind).replace("NAME", "orders").replace("RECORD", "orders-streams-recovery")
    rights = yaml.safe_load(text)
    parts = ("always", "nodes", *((claims,) if claims else ()), *(("keda",) if keda else ()))
    workload = WorkloadName(kind=kind, name="orders")
    wanted = rights_needed(workload, "shop", "orders-streams-recovery", stops=True, claims=claims, keda=keda)
    assert granted(rule for part in parts for rule in rights[part]) == needed(wanted)


def test_every_object_of_the_manifest_belongs_together() -> None:
    found = [one for one in yaml.safe_load_all(RIGHTS.read_text()) if one]
    assert [one["kind"] for one in found] == ["ConfigMap", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    names = {one["kind"]: one["metadata"]["name"] for one in found}
    assert all(one["roleRef"]["name"] == names[one["roleRef"]["kind"]] for one in found if "roleRef" in one)
    assert names["ConfigMap"] == "orders-streams-recovery"
