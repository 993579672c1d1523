"""Stored objects, changed by a fuzzer: each is read, or is damage; nothing else, and in no more memory than there is to give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT
from tests.support.repository import fuzz


def fuzzed(seed: int, seconds: int, directory: Path) -> dict[str, dict[str, int]]:
    """What a fuzzer of so many seconds found, in a process of its own."""
    command = [sys.executable, "-m", fuzz.__name__, str(seed), str(seconds), str(directory)]
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT / 'plugins'}{os.pathsep}{PROJECT}"}
    done = subprocess.run(command, cwd=PROJECT, env=environment, check=False, capture_output=True, text=True, timeout=seconds + 300)
    assert done.returncode == 0, f"{done.stderr[-3000:]}\nthe object is {directory / 'fuzz' / 'last'}"
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


@pytest.mark.fault("F63")
def test_some_changed_objects_are_read_or_are_damage(tmp_path: Path) -> None:
    assert sum(told["refused"] for told in fuzzed(1, 4, tmp_path).values()) > 0


@pytest.mark.fault("F63")
@pytest.mark.deep
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_many_changed_objects_are_read_or_are_damage(tmp_path: Path, seed: int) -> None:
    found = fuzzed(seed, 90, tmp_path)
    assert set(found) == {"manifest", "range table", "segment", *(type(value).__name__ for value in fuzz.ENTRIES)}
    assert all(told["refused"] for told in found.values())
