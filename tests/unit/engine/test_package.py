from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile

from streams_recovery.core.project_files import ProjectFiles, project_files
from streams_recovery.engine.package import build_package


def test_the_same_sources_give_the_same_bytes_whatever_their_dates(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(project_files().jobs, copy / "spark_jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for path in copy.rglob("*.py"):
        os.utime(path, (0, 0))
        path.chmod(0o600)
    first, second = build_package(tmp_path / "a"), build_package(tmp_path / "b", files=ProjectFiles(copy))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_another_source_gives_another_name(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(project_files().jobs, copy / "spark_jobs")
    before = build_package(tmp_path, files=ProjectFiles(copy))
    (copy / "spark_jobs" / "backup.py").write_text("# changed\n")
    assert build_package(tmp_path, files=ProjectFiles(copy)) != before
    assert before.exists()


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
    assert {name.split("/")[1] for name in names if name.startswith("streams_recovery/")} == {
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
