"""The plugin loader executes what it finds under bare names; the package must be out of its sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.support.project import PROJECT

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


def test_loading_the_plugins_folder_gives_no_error_and_replaces_no_module() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(PROJECT / "plugins" / "streams_recovery")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["errors"] == {}
    assert found["replaced"] == []
    assert found["bare"] == []
    assert "streams_recovery_plugin" in found["plugins"]
