"""Every line of what a savepoint and a restore rest on is run by a test: offsets, manifest, lock, journal and cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
MODULES = tuple(
    f"plugins/streams_recovery/{name}.py"
    for name in ("core/offsets", "core/manifest", "core/lease", "storage/numbered", "storage/lock", "core/journal", "core/cut")
)
TESTS = ("tests/unit/core", "tests/unit/storage", "tests/unit/upkeep", "tests/contracts/test_lock.py", "tests/contracts/test_repository.py")

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1_200)]


def test_every_line_is_run(tmp_path: Path) -> None:
    environment = os.environ | {"COVERAGE_FILE": str(tmp_path / "coverage")}

    def coverage(*arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]

    coverage("run", f"--include={','.join(MODULES)}", "-m", "pytest", "-q", "-k", "not s3", *TESTS)
    coverage("json", "-o", str(tmp_path / "coverage.json"))
    files = json.loads((tmp_path / "coverage.json").read_text())["files"]
    assert {name: files[name]["missing_lines"] if name in files else "never imported" for name in MODULES} == {name: [] for name in MODULES}
