"""The plugin loader executes what it finds under bare names; the package must be out of its sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import airflow

from streams_recovery.provider.bundle import RecoveryDagBundle
from tests.support.project import PROJECT

ENTRY_POINT = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]["airflow.plugins"]["streams_recovery"]
LOAD = """
import json, sys, types
before = {name: id(sys.modules[name]) for name in ("json", "types")}
from airflow.plugins_manager import get_import_errors, ensure_plugins_loaded, get_plugin_info
ensure_plugins_loaded()
stems = {path.stem for path in __import__("pathlib").Path(sys.argv[1]).rglob("*.py")} - {"__init__", "__main__", "streams_recovery_plugin"}
ours = [name for name in stems if "streams_recovery" in str(getattr(sys.modules.get(name), "__file__", "") or "") and sys.argv[1] in sys.modules[name].__file__]
print(json.dumps({
    "errors": {str(k): str(v) for k, v in get_import_errors().items()},
    "replaced": [name for name, known in before.items() if id(sys.modules[name]) != known],
    "bare": sorted(ours),
    "plugins": [info["name"] for info in get_plugin_info()],
}))
"""


def load(*python: str, path: Sequence[Path] = ()) -> dict[str, Any]:
    """What Airflow's loader finds in a Python with these options and these directories before everything else."""
    done = subprocess.run(
        [sys.executable, *python, "-c", LOAD, str(PROJECT / "plugins" / "streams_recovery")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*path, PROJECT / "plugins", PROJECT]))},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def as_expected(found: dict[str, Any]) -> bool:
    """Whether the plugin is there once, and nothing else was touched."""
    assert (found["errors"], found["replaced"], found["bare"]) == ({}, [], [])
    return bool(found["plugins"].count("streams_recovery_plugin") == 1)


def test_where_the_package_is_installed_the_entry_point_is_the_plugin() -> None:
    assert [one.value for one in entry_points(group="airflow.plugins", name="streams_recovery")] == [ENTRY_POINT]
    assert as_expected(load())


def test_where_it_is_only_in_the_plugins_folder_the_file_is_the_plugin(tmp_path: Path) -> None:
    installed = Path(airflow.__file__).parents[1]
    for one in installed.iterdir():
        if not one.name.startswith("kafka_streams_recovery") and one.suffix != ".pth":
            (tmp_path / one.name).symlink_to(one)
    # Without -S Python would look into its own site-packages too.
    assert as_expected(load("-S", path=[tmp_path]))


def test_the_bundle_is_the_folder_of_dag_files() -> None:
    assert RecoveryDagBundle(name="streams-recovery").path == PROJECT / "dags"
