"""What ``make lint`` runs, as tests: they use the pauses of others, and nothing waits until they are through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.project import PROJECT, linters


@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", linters())
def test_a_linter_finds_nothing(command: str) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [Path(sys.executable).parent / program, *arguments],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": "plugins:."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-1_000:]
