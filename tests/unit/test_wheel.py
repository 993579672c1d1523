"""The wheel has every source and nothing else, and works where nothing of the checkout is; where the project's files are found."""

from __future__ import annotations

import configparser
import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.project_files import CARRIED, project_files
from streams_recovery.core.version import VERSION
from streams_recovery.engine.spark_home import build_package
from tests.support.project import PROJECT
from tests.support.wheel import build_wheel

PACKAGE = "plugins/streams_recovery"
# In a checkout a person's own configurations lie beside these.
CONFIGS = PROJECT / "include" / "configs"
EXAMPLES = {"application.schema.json", "order-processing.yaml", "reference.yaml.example"}
INSIDE = {PACKAGE: "streams_recovery", **{folder: f"streams_recovery/project/{folder}" for folder in CARRIED}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("dist")))


@pytest.fixture(scope="module")
def unpacked(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installer does, without the programs."""
    directory = tmp_path_factory.mktemp("site-packages")
    wheel.extractall(directory)
    return directory


def sources() -> dict[str, Path]:
    """Every file that belongs into the wheel, by its name there."""
    found = {}
    for folder, inside in INSIDE.items():
        for path in (PROJECT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and (path.parent != CONFIGS or path.name in EXAMPLES):
                found[f"{inside}/{path.relative_to(PROJECT / folder).as_posix()}"] = path
    return found


def information(wheel: zipfile.ZipFile, name: str) -> str:
    """A file of the wheel's ``.dist-info``."""
    (found,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
    return wheel.read(found).decode()


def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_string(information(wheel, "METADATA"))


def requirements(wheel: zipfile.ZipFile) -> dict[str, Requirement]:
    """The wheel's own, by name; those of extras too."""
    return {canonicalize_name(found.name): found for found in map(Requirement, metadata(wheel).get_all("Requires-Dist") or ())}


def test_it_has_every_source_as_it_is_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = sources()
    assert names == wanted.keys()
    assert [name for name, path in wanted.items() if wheel.read(name) != path.read_bytes()] == []


def test_configurations_and_keys_of_a_checkout_are_in_no_wheel(tmp_path: Path) -> None:
    copy = tmp_path / "checkout"
    for name in (*CARRIED, "plugins"):
        shutil.copytree(PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, copy)
    mine = [
        "include/configs/mine.yaml",
        "include/configs/.mine.yaml.swp",
        "include/configs/keys/seal",
        "dags/.env",
        "plugins/streams_recovery/ca.pem",
    ]
    for name in mine:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("canary")
    with zipfile.ZipFile(build_wheel(tmp_path / "dist", copy)) as wheel:
        assert [name for name in wheel.namelist() if wheel.read(name) == b"canary"] == []
        assert {Path(name).name for name in wheel.namelist() if "/include/configs/" in name} == EXAMPLES


def test_it_has_compiled_code_for_both_kinds_of_machine_and_is_a_wheel_for_any(wheel: zipfile.ZipFile) -> None:
    libraries = {name: wheel.read(name) for name in wheel.namelist() if name.endswith(".so.1")}
    # e_machine in the header of an ELF file: 62 is x86-64, 183 is AArch64.
    machines = {name.rpartition("/")[2]: int.from_bytes(data[18:20], "little") for name, data in libraries.items()}
    assert machines == {"gather-x86_64.so.1": 62, "gather-aarch64.so.1": 183}
    assert "Tag: py3-none-any" in information(wheel, "WHEEL"), "where neither fits, it works without"


def test_that_is_dags_jobs_examples_and_types_and_no_test(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for folder, pattern in (
        ("dags", "streams_*.py"),
        ("spark_jobs", "*.py"),
        ("include/configs", "*.yaml"),
        ("include/configs", "*.example"),
    ):
        files = [path.name for path in (PROJECT / folder).glob(pattern)]
        assert files
        assert {f"streams_recovery/project/{folder}/{name}" for name in files} <= names
    assert "streams_recovery/py.typed" in names
    assert [name for name in names if "test" in Path(name).name.split("_") or name.startswith("tests/")] == []


def test_its_entry_points_lead_to_what_exists(wheel: zipfile.ZipFile) -> None:
    found = configparser.ConfigParser(delimiters=("=",))
    found.read_string(information(wheel, "entry_points.txt"))
    assert {group: list(found[group]) for group in found.sections()} == {
        "console_scripts": ["streams-recovery"],
        "apache_airflow_provider": ["provider_info"],
        "airflow.plugins": ["streams_recovery"],
    }
    for group in found.sections():
        for target in found[group].values():
            module, _, name = target.partition(":")
            assert callable(getattr(importlib.import_module(module), name))


def test_the_provider_has_the_name_under_which_it_is_installed(wheel: zipfile.ZipFile) -> None:
    # Airflow refuses a provider whose two names differ.
    from streams_recovery.provider.info import get_provider_info

    assert (metadata(wheel)["Name"], metadata(wheel)["Version"]) == (get_provider_info()["package-name"], VERSION)


def test_what_the_tests_run_with_is_inside_the_ranges_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    ranges = requirements(wheel)
    always = {name for name, found in ranges.items() if found.marker is None}
    pinned = [line for line in (PROJECT / "requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    listed = {canonicalize_name(found.name) for found in map(Requirement, pinned)}
    # What an extra brings is listed where tests need it.
    assert always <= listed <= ranges.keys()
    lock = dict(line.split(" ")[0].split("==") for line in (PROJECT / "requirements.lock").read_text().splitlines() if line[:1].isalpha())
    assert [name for name, found in ranges.items() if name in listed and not found.specifier.contains(lock[name])] == []


def test_spark_and_its_client_are_one_version_and_pandas_is_what_it_supports(wheel: zipfile.ZipFile) -> None:
    found = requirements(wheel)
    assert found["pyspark"].specifier == found["pyspark-client"].specifier
    assert [specifier.operator for specifier in found["pyspark"].specifier] == ["=="]
    assert not found["pandas"].specifier.contains("3.0.0")


def test_only_what_is_heavy_is_an_extra(wheel: zipfile.ZipFile) -> None:
    assert metadata(wheel).get_all("Provides-Extra") == ["kubernetes"]
    assert str(requirements(wheel)["kubernetes"].marker) == 'extra == "kubernetes"'


def test_what_is_needed_to_build_it_is_what_the_lock_installs() -> None:
    needed = {
        found.name: found for found in map(Requirement, tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"])
    }
    assert needed.keys() == {"hatchling", "ziglang"}
    lines = [line.split(" ")[0].partition("==") for line in (PROJECT / "requirements.lock").read_text().splitlines()]
    locked = {name: version for name, _, version in lines if name in needed}
    assert {name: found.specifier.contains(locked[name]) for name, found in needed.items()} == dict.fromkeys(needed, True)


def run(unpacked: Path, place: Path, *command: str) -> str:
    """What a program prints that finds the unpacked wheel, in a directory with nothing of this project."""
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    environment = {**kept, "PYTHONPATH": str(unpacked), "HOME": str(place), "AIRFLOW_HOME": str(place / "airflow")}
    done = subprocess.run([sys.executable, *command], env=environment, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installed_it_finds_its_own_files_and_the_user_s_configurations(unpacked: Path, tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(run(unpacked, tmp_path, "-m", "streams_recovery", "paths", "--json"))
    assert found == {
        "dags": str(unpacked / "streams_recovery/project/dags"),
        "jobs": str(unpacked / "streams_recovery/project/spark_jobs"),
        "examples": str(unpacked / "streams_recovery/project/include/configs"),
        "configurations": str(tmp_path / "airflow/include/configs"),
    }


def test_installed_it_gives_spark_the_same_code_as_a_checkout(unpacked: Path, tmp_path: Path) -> None:
    code = (
        "import pathlib; from streams_recovery.engine.spark_home import build_package; print(build_package(pathlib.Path('made').resolve()))"
    )
    made = Path(run(unpacked, tmp_path, "-c", code).strip()), build_package(tmp_path / "checkout")
    # Bytecode is what either has stored.
    installed, checkout = (
        {name: zipped.read(name) for name in zipped.namelist() if not name.endswith(".pyc")} for zipped in map(zipfile.ZipFile, made)
    )
    assert installed == checkout


def test_in_a_checkout_the_files_are_at_the_top_of_the_project() -> None:
    found = project_files({})
    assert found.root == PROJECT
    assert (found.dags / "streams_backup.py").is_file()
    assert (found.jobs / "backup.py").is_file()
    assert (found.configs / "reference.yaml.example").is_file()


def test_the_environment_names_another_project_that_must_hold_the_jobs(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        project_files({"STREAMS_RECOVERY_HOME": str(tmp_path)})
    assert refused.value.facts["path"] == str(tmp_path)
    (tmp_path / "spark_jobs").mkdir()
    (tmp_path / "spark_jobs" / "backup.py").touch()
    assert project_files({"STREAMS_RECOVERY_HOME": str(tmp_path)}).root == tmp_path


def test_every_folder_that_is_asked_for_is_one_that_the_wheel_carries() -> None:
    found = project_files({})
    folders = {path.relative_to(found.root).parts[0] for path in (found.dags, found.jobs, found.configs)}
    assert folders == set(CARRIED)
