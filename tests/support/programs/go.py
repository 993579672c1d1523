"""Real servers and clients that exist as Go modules only, built once and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_BUILD_SECONDS = 900


def go_program(name: str, package: str, version: str) -> Path:
    """The program built from ``package`` (its module path and folder). Without Go the test is skipped and says what it did not check.

    Built inside a module of its own: ``go install`` refuses modules whose go.mod excludes or replaces others.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-streams-recovery" / "go"
    program = cache / f"{name}-{version}"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"NOT checked: this needs Go to build {name}, and go is not on the PATH")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(go, name, package, version, program)
    return program


def _build(go: str, name: str, package: str, version: str, program: Path) -> None:
    with tempfile.TemporaryDirectory() as module:
        for arguments in (["mod", "init", "built"], ["get", f"{package}@{version}"], ["build", "-o", name, package]):
            done = subprocess.run([go, *arguments], cwd=module, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS)
            if done.returncode:
                pytest.fail(f"go {' '.join(arguments)}: {done.stderr[-2000:]}")
        built = program.with_suffix(f".{os.getpid()}")
        shutil.move(Path(module) / name, built)
        built.replace(program)
