"""The plugin loader executes what it finds under bare names; the package must be out of its sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

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


def load(*path: str) -> dict[str, Any]:
    """What Airflow's loader finds with these directories before everything else."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(PROJECT / "plugins" / "streams_recovery")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*path, str(PROJECT / "plugins"), str(PROJECT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def test_loading_the_plugins_folder_gives_no_error_and_replaces_no_module() -> None:
    found = load()
    assert found["errors"] == {}
    assert found["replaced"] == []
    assert found["bare"] == []
    assert found["plugins"].count("streams_recovery_plugin") == 1


def test_where_the_package_is_installed_too_the_plugin_is_there_once(tmp_path: Path) -> None:
    information = tmp_path / "kafka_streams_recovery-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kafka-streams-recovery\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(f"[airflow.plugins]\nstreams_recovery = {ENTRY_POINT}\n")
    found = load(str(tmp_path))
    assert found["errors"] == {}
    assert found["plugins"].count("streams_recovery_plugin") == 1


def test_the_bundle_is_the_folder_of_dag_files() -> None:
    assert RecoveryDagBundle(name="streams-recovery").path == PROJECT / "dags"
