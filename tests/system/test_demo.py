"""The main job, whole: a real broker, a real application, real Spark jobs, a running Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

PROJECT = Path(__file__).resolve().parents[2]
CHECKS = (
    "state_equal",
    "changelogs_equal",
    "incremental",
    "tail_and_suppress_covered",
    "offset_metadata_equal",
    "continued_correctly",
)


@pytest.mark.system
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_application_loses_everything_and_comes_back(guarantee: str) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)])}
    done = subprocess.run([sys.executable, "-m", "embedded", "demo", "--guarantee", guarantee], cwd=PROJECT, env=environment, check=False)
    assert done.returncode == 0
    report = json.loads((PROJECT / "build" / "demo" / "report.json").read_text())
    assert {name: report[name] for name in CHECKS} == dict.fromkeys(CHECKS, True)
    assert report["guarantee"] == guarantee
    assert report["keys_compared"] > 0
    assert all(count > 0 for count in report["records_copied"])
    assert report["rpo_seconds"] == 0
    left = [p.pid for p in psutil.process_iter(["cmdline"]) if str(PROJECT / "build" / "demo") in " ".join(p.info["cmdline"] or [])]
    assert left == []
