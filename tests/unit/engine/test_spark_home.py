"""Which Spark is used, and the package of code that its tasks get."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.project_files import ProjectFiles, project_files
from streams_recovery.engine.spark_home import SPARK_HOME, build_package, find_spark_home, installed_spark


def home_with(directory: Path, jar: str) -> Path:
    for name in ("bin", "jars"):
        (directory / name).mkdir()
    (directory / "bin" / "spark-submit").touch()
    (directory / "jars" / jar).touch()
    return directory


def test_it_is_the_packages_when_nothing_else_is_said() -> None:
    assert find_spark_home({}) == find_spark_home({SPARK_HOME: ""}) == installed_spark()
    assert (installed_spark() / "bin" / "spark-submit").is_file()


def test_another_of_the_same_version_is_taken(tmp_path: Path) -> None:
    (jar,) = (installed_spark() / "jars").glob("spark-core_*.jar")
    assert find_spark_home({SPARK_HOME: str(home_with(tmp_path, jar.name))}) == tmp_path


@pytest.mark.parametrize("jar", ["spark-core_2.13-3.5.1.jar", "other.jar"])
def test_one_of_another_version_is_refused_by_name(tmp_path: Path, jar: str) -> None:
    with pytest.raises(ConfigInvalid, match=str(tmp_path)):
        find_spark_home({SPARK_HOME: str(home_with(tmp_path, jar))})


def test_a_directory_without_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="no Spark"):
        find_spark_home({SPARK_HOME: str(tmp_path / "none")})


def test_the_same_sources_give_the_same_bytes_whatever_their_dates(tmp_path):
    copy, dated = tmp_path / "copy", tmp_path / "dated"
    for each in (copy, dated):
        shutil.copytree(project_files().jobs, each / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for path in dated.rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(0o600)
    first, second = build_package(tmp_path / "a", files=ProjectFiles(copy)), build_package(tmp_path / "b", files=ProjectFiles(dated))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_another_source_gives_another_name(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(project_files().jobs, copy / "spark_jobs")
    before = build_package(tmp_path, files=ProjectFiles(copy))
    (copy / "spark_jobs" / "backup.py").write_text("# changed\n")
    assert build_package(tmp_path, files=ProjectFiles(copy)) != before
    assert before.exists()


def imported(package, module):
    """The file that Python has taken it from."""
    code = f"import sys, {module}; print(sys.modules[{module!r}].__file__)"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env={"PYTHONPATH": str(package)}, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_stored_bytecode_goes_along_unless_the_source_has_changed_since(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(project_files().jobs, copy / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "spark_jobs" / "access.py"
    assert "spark_jobs/access.pyc" not in zipfile.ZipFile(build_package(tmp_path, files=ProjectFiles(copy))).namelist()
    py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    package = build_package(tmp_path, files=ProjectFiles(copy))
    assert imported(package, "spark_jobs.access") == f"{package}/spark_jobs/access.pyc"
    path.write_text(path.read_text() + "CHANGED = True\n")
    package = build_package(tmp_path, files=ProjectFiles(copy))
    assert imported(package, "spark_jobs.access") == f"{package}/spark_jobs/access.py"


def test_a_python_of_another_version_takes_the_source(tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(project_files().jobs, copy / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "spark_jobs" / "access.py"
    stored = py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
    other = b"\x01\x0c\r\n"
    Path(stored).write_bytes(other + Path(stored).read_bytes()[4:])
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", other)
    package = build_package(tmp_path, files=ProjectFiles(copy))
    assert "spark_jobs/access.pyc" in zipfile.ZipFile(package).namelist()
    assert imported(package, "spark_jobs.access") == f"{package}/spark_jobs/access.py"


def test_one_that_is_there_is_used_again(tmp_path):
    path = build_package(tmp_path)
    path.write_bytes(b"not touched")
    assert build_package(tmp_path) == path
    assert path.read_bytes() == b"not touched"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_it_has_what_tasks_import_and_nothing_of_airflow(tmp_path):
    names = zipfile.ZipFile(build_package(tmp_path)).namelist()
    assert {"streams_recovery/__init__.py", "streams_recovery/core/jobs/spec.py", "spark_jobs/backup.py", "spark_jobs/__init__.py"} <= {
        *names
    }
    assert {name.split("/")[1] for name in names if name.startswith("streams_recovery/") and name.endswith(".py")} == {
        "__init__.py",
        "core",
        "segments",
        "serdes",
        "kafka",
        "storage",
    }


def test_everything_in_it_imports_without_the_project_around_it(tmp_path):
    path = build_package(tmp_path)
    names = [name for name in zipfile.ZipFile(path).namelist() if name.startswith("streams_recovery/") and name.endswith(".py")]
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in names]
    code = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint(sys.modules['streams_recovery'].__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], env={"PYTHONPATH": str(path)}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(path))
