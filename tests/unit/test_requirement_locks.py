"""What is installed is what was locked: every package has a version and hashes, and nothing is installed without them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement

from tests.support.compose_files import DOCKERFILES, LOCK, locked
from tests.support.project import PROJECT

OF_IMAGES = ["docker/airflow/requirements.lock", "docker/spark/requirements.lock"]
LOCKS = ["requirements.lock", "requirements-uv.lock", "requirements-wheel.lock", "tests/support/programs/faust.lock", *OF_IMAGES]


def entries(name):
    """Each requirement of a lock file with all that belongs to it."""
    text = (PROJECT / name).read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_one_version_and_the_hashes_of_its_files(name):
    found = entries(name)
    assert found
    for entry in found:
        assert re.match(r"[a-z0-9-]+==[^ ]+( ; [^-]+?)?( +--hash=sha256:[0-9a-f]{64})+$", entry), entry[:120]


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_a_registry(name):
    assert "://" not in (PROJECT / name).read_text()
    assert "index-url" not in (PROJECT / name).read_text()


@pytest.mark.parametrize("name", [*OF_IMAGES, "requirements-wheel.lock"])
def test_images_and_wheels_have_the_versions_that_the_tests_ran_with(name):
    assert locked(name).items() <= LOCK.items()


@pytest.mark.parametrize(("name", "listed"), [("docker/airflow", "requirements.txt"), ("docker/spark", "docker/spark/requirements.txt")])
def test_images_have_what_is_listed_for_them_and_no_tests(name, listed):
    wanted = {re.split(r"[=<>]", line)[0].lower() for line in (PROJECT / listed).read_text().splitlines() if line and line[0] != "#"}
    found = locked(f"{name}/requirements.lock")
    assert wanted <= found.keys()
    assert not found.keys() & {"pytest", "mypy", "ruff", "hypothesis"}


# What the modules of a task bring along, by what Python itself says was imported.
IMPORTED = """
import importlib, pkgutil, sys
before = set(sys.modules)
import spark_jobs.transforms
for module in pkgutil.iter_modules(spark_jobs.transforms.__path__):
    importlib.import_module(f"spark_jobs.transforms.{module.name}")
from spark_jobs.transforms import task_runner
list(task_runner._imported(()))
print(*{name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))
"""


def test_a_worker_of_spark_has_what_a_task_imports():
    paths = {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    done = subprocess.run([sys.executable, "-c", IMPORTED], env=os.environ | paths, capture_output=True, text=True, check=True)
    packages = packages_distributions()
    needed = {re.sub("[-_.]+", "-", packages[name][0]).lower() for name in done.stdout.split() if name in packages}
    needed -= {"kafka-streams-recovery"}
    assert {"confluent-kafka", "pyarrow"} <= needed
    assert needed <= locked("docker/spark/requirements.lock").keys()


@pytest.fixture(scope="module")
def client():
    """The client of Kubernetes, as the wheel's extra asks for it."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (found,) = map(Requirement, extras["kubernetes"])
    return found


def test_the_image_has_the_client_of_kubernetes_that_the_extra_asks_for(client):
    # The image installs the wheel without what it depends on, so the lock alone brings what an extra has.
    assert client.specifier.contains(locked("docker/airflow/requirements.lock").get(client.name, "0"))


@pytest.mark.parametrize("version", ["36.0.1", "36.0.3", "37.0.1"])
def test_the_extra_fits_beside_airflow_s_provider_of_kubernetes_and_takes_the_client_of_today(client, version):
    # apache-airflow-providers-cncf-kubernetes 10.25.0 asks for 36.0.1 or newer, and older than 37.
    assert client.specifier.contains(version)


def installs():
    """Every command that installs Python packages, by its file."""
    texts = {"Makefile": (PROJECT / "Makefile").read_text(), **{f"docker/{name}": text for name, text in DOCKERFILES.items()}}
    for name, text in texts.items():
        for line in text.replace("\\\n", " ").splitlines():
            if "pip install" in line:
                yield name, line


def test_nothing_is_installed_without_hashes_but_this_project_itself():
    found = list(installs())
    assert {name for name, _ in found} == {"Makefile", "docker/airflow", "docker/image", "docker/spark"}
    unlocked = {name: line.strip() for name, line in found if "--require-hashes" not in line}
    assert unlocked.keys() == {"Makefile", "docker/image"}
    # Built with what the lock has installed, and not with what a registry has today.
    assert unlocked["Makefile"].endswith("--no-build-isolation --no-deps --editable .")
    assert unlocked["docker/image"].endswith("--no-index --no-deps /wheel/*.whl")
