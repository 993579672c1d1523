"""The wheel, built from the sources as they are, without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.project import PROJECT


def build_wheel(directory: Path, project: Path = PROJECT) -> Path:
    """The wheel of this project, or of a copy of it, in ``directory``."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = directory.glob("*.whl")
    return found
