"""Every line of what savepoints and restores rest on is run by tests that need neither Kafka nor Spark: ``tests/every_line.ini`` has the modules."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT

RULES = "--rcfile=tests/every_line.ini"
TESTS = ("tests/unit", "tests/contracts/test_lock.py", "tests/contracts/test_repository.py")


def test_the_modules_are_there() -> None:
    rules = configparser.ConfigParser()
    rules.read(PROJECT / "tests" / "every_line.ini")
    modules = rules["run"]["include"].split()
    assert modules
    assert [module for module in modules if not list(PROJECT.glob(module))] == [], "what was moved is no longer measured"


@pytest.mark.deep
@pytest.mark.timeout(1_800)
def test_every_line_is_run(tmp_path: Path) -> None:
    environment = os.environ | {"COVERAGE_FILE": str(tmp_path / "coverage")}

    def coverage(*arguments: str) -> None:
        command = [sys.executable, "-m", "coverage", *arguments]
        done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-1_000:]

    coverage("run", RULES, "-m", "pytest", "-q", "--tier", "test", "-k", "not s3", *TESTS)
    coverage("combine", RULES)
    coverage("report", RULES)
