"""The containers agree with the project: every version, file, command and health check in them exists on the other side."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compose_files import (
    AIRFLOW,
    CONTROL,
    DOCKERFILES,
    INSIDE,
    LOCK,
    SERVICES,
    base_images,
    command,
    environment,
    mounts,
    outside,
    ports_of,
)
from tests.support.programs.kafka_versions import VERSIONS
from tests.support.project import PROJECT

# Versions


def test_every_image_has_a_version():
    assert base_images()
    for image in base_images() + [service["image"] for service in SERVICES.values()]:
        name, _, tag = image.partition(":")
        assert name, image
        assert re.match(r"v?\d", tag), f"{image} is not pinned"


def test_one_image_one_version():
    versions = {}
    for image in base_images():
        name, _, tag = image.partition(":")
        assert versions.setdefault(name, tag) == tag


def test_kafka_is_one_version_that_the_tests_know():
    version = SERVICES["kafka"]["image"].removeprefix("apache/kafka:")
    assert version in VERSIONS
    assert f"FROM apache/kafka:{version} AS kafka" in DOCKERFILES["example"]
    assert SERVICES["order-processor-1"]["image"].endswith(f":{version}")


def test_airflow_is_the_locked_version_on_the_same_python():
    python = ".".join(map(str, re.search(r'requires-python = ">=(\d+)\.(\d+)"', (PROJECT / "pyproject.toml").read_text()).groups()))
    assert f"FROM apache/airflow:{LOCK['apache-airflow']}-python{python}" in DOCKERFILES["airflow"]
    assert SERVICES["airflow-scheduler"]["image"].endswith(f":{LOCK['apache-airflow']}")
    assert f"FROM python:{python}-slim-bookworm" in DOCKERFILES["spark"]
    assert f"python{python}/site-packages/pyspark" in DOCKERFILES["spark"]
    assert CONTROL["services"]["docker-control"]["image"] == f"python:{python}-slim-bookworm"
    for service in ("spark-master", "spark-worker"):
        assert f"python{python}/" in command(service)[0]


def test_spark_is_the_locked_version():
    assert LOCK["pyspark"] == LOCK["pyspark-client"]
    assert SERVICES["spark-master"]["image"] == f"streams-recovery/spark:{LOCK['pyspark']}"


@pytest.mark.parametrize("name", ["airflow", "spark"])
def test_packages_come_from_the_lock(name):
    text = DOCKERFILES[name]
    assert f"COPY docker/{name}/requirements.lock {INSIDE}/requirements/" in text
    assert f"--require-hashes -r {INSIDE}/requirements/requirements.lock" in text
    assert not re.search(r"pip install[^\n]*==", text.replace("\\\n", " "))


def test_java_is_17_everywhere():
    for name, text in DOCKERFILES.items():
        # That one has the Java of the image it is built on.
        assert name == "image" or "FROM eclipse-temurin:17-jdk-jammy" in text


def test_the_image_with_everything_is_built_on_airflow_s_and_has_the_bundle_of_dags():
    text = DOCKERFILES["image"]
    assert f"FROM {SERVICES['airflow-scheduler']['image']}\n" in text
    bundles = json.loads(re.search(r"^ENV AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST='(.*)'$", text, re.M)[1])
    for bundle in bundles:
        module, _, name = bundle["classpath"].rpartition(".")
        assert getattr(importlib.import_module(module), name)
    assert [bundle["name"] for bundle in bundles] == ["dags-folder", "streams-recovery"]


def imported_packages(*folders):
    for folder in folders:
        for path in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module.split(".")[0]


def test_workers_have_what_tasks_import():
    listed = {line.strip() for line in (PROJECT / "docker/spark/requirements.txt").read_text().splitlines() if line and line[0] != "#"}
    assert listed <= set(LOCK)
    by_module = {"confluent_kafka": "confluent-kafka"}
    package = "plugins/streams_recovery"
    needed = set(
        imported_packages(
            f"{package}/core", f"{package}/formats", f"{package}/kafka", f"{package}/storage", "spark_jobs", "examples/order_processing"
        )
    )
    needed -= {*sys.stdlib_module_names, "streams_recovery", "spark_jobs", "examples"}
    # The admin client, and what expiry asks a bucket with: tasks and generator never open them, and no module that tasks import does.
    needed -= {"kafka", "boto3", "botocore"}
    assert {by_module.get(module, module) for module in needed} <= listed


# Files and commands


@pytest.mark.parametrize("service", SERVICES)
def test_mounted_files_exist(service):
    for target, source in mounts(service).items():
        assert source.exists(), f"{service}: {source}"
        assert target.startswith(INSIDE)


@pytest.mark.parametrize("service", SERVICES)
def test_everything_of_the_project_is_mounted_read_only(service):
    for volume in SERVICES[service].get("volumes", []):
        if volume.startswith("."):
            assert volume.endswith(":ro"), volume


@pytest.mark.parametrize("service", [name for name, service in SERVICES.items() if "build" in service])
def test_builds_exist(service):
    build = SERVICES[service]["build"]
    assert build["context"] == "."
    assert (PROJECT / build["dockerfile"]).is_file()


def test_what_images_copy_exists_and_is_let_into_the_build():
    allowed = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for text in DOCKERFILES.values():
        for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M):
            copied |= set(sources.split())
    assert copied == allowed
    assert all((PROJECT / path).is_file() for path in copied)
    assert (PROJECT / ".dockerignore").read_text().splitlines()[1] == "*"


def test_files_named_in_commands_and_variables_are_mounted():
    checked = 0
    for service in SERVICES:
        for text in [*command(service), *environment(service).values()]:
            for path in re.findall(rf"{INSIDE}/[\w./-]+", text):
                found = outside(service, path)
                if (
                    service in AIRFLOW
                    and found is None
                    and service not in ("airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
                ):
                    continue  # shared variables; these services neither run tasks nor read them
                assert found is not None, f"{service}: {path} is not mounted"
                assert found.exists(), f"{service}: {path} does not exist"
                checked += 1
    assert checked > 10


@pytest.mark.parametrize("service", ["airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"])
def test_airflow_services_see_dags_plugins_and_configurations(service):
    found = environment(service)
    for name in ("AIRFLOW__CORE__DAGS_FOLDER", "AIRFLOW__CORE__PLUGINS_FOLDER", "STREAMS_RECOVERY_CONFIG_DIR"):
        assert outside(service, found[name]).is_dir()
    assert found["PYTHONPATH"].split(":") == [f"{INSIDE}/plugins", INSIDE]
    assert command(service) == [service.removeprefix("airflow-")]


def test_modules_and_programs_that_commands_name_exist():
    assert command("generator")[1:3] == ["-m", "examples.order_processing.generator"]
    assert importlib.util.find_spec("examples.order_processing.generator")
    source = command("topics")[2]
    called = {node.func.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)}
    module, name = re.match(r"from (\S+) import (\w+);", source).groups()
    assert called == {name}
    assert callable(getattr(importlib.import_module(module), name))
    assert environment("topics")["PYTHONPATH"] == environment("generator")["PYTHONPATH"] == INSIDE
    options = subprocess.run(
        [sys.executable, "-m", "examples.order_processing.generator", "--help"], capture_output=True, text=True, cwd=PROJECT, check=True
    )
    for option in (part for part in command("generator") if part.startswith("--")):
        assert option in options.stdout


def test_spark_programs_exist_in_the_locked_pyspark():
    import pyspark

    home = Path(pyspark.__file__).parent
    inside = re.search(r"^ENV SPARK_HOME=(\S+)", DOCKERFILES["spark"], re.M)[1]
    for service in ("spark-master", "spark-worker"):
        program = command(service)[0]
        assert program.startswith(f"{inside}/")
        assert (home / program.removeprefix(f"{inside}/")).is_file()


def test_the_example_is_started_without_a_shell_and_by_its_class():
    start = json.loads(re.search(r"^CMD (\[.*\])$", DOCKERFILES["example"], re.M)[1])
    source = (PROJECT / "examples/order_processing/OrderProcessing.java").read_text()
    assert start[0] == "java"
    assert f"public class {start[-1]} " in source
    assert "\npackage " not in source
    known = set(re.findall(r'env\("(\w+)"', source))
    for service in ("order-processor-1", "order-processor-2"):
        assert set(environment(service)) <= known


@pytest.mark.parametrize(
    "service",
    # The generator serves nothing that could be asked.
    [name for name in SERVICES if SERVICES[name].get("restart") != "no" and name != "generator"]
    + ["order-processor-1", "order-processor-2"],
)
def test_every_service_that_stays_has_a_health_check(service):
    test = SERVICES[service]["healthcheck"]["test"]
    assert test[0] in ("CMD", "CMD-SHELL")
    text = " ".join(map(str, test))
    for port in re.findall(r"https?://[\w.-]+:(\d+)", text):
        assert port in ports_of(service), f"{service} does not listen on {port}"


def test_health_checks_of_airflow_name_what_exists():
    assert environment("airflow-scheduler")["AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK"] == "True"
    for service in ("airflow-dag-processor", "airflow-triggerer"):
        job = re.search(r"--job-type (\w+)", SERVICES[service]["healthcheck"]["test"][1])[1]
        package = Path(importlib.util.find_spec("airflow").submodule_search_locations[0])
        sources = " ".join(path.read_text() for path in (package / "jobs").glob("*.py"))
        assert f'job_type = "{job}"' in sources


def test_the_example_s_health_check_is_in_its_image():
    test = SERVICES["order-processor-1"]["healthcheck"]["test"]
    assert test == ["CMD", "/opt/example/healthcheck.sh"]
    assert "docker/example/healthcheck.sh" in DOCKERFILES["example"]
