"""The programs of a control plane, built from their own modules: Kubernetes publishes them as containers only. Built once, and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "programs"
_VERSIONS = {"etcd": "3.6.5", "apiserver": "1.35.0", "controllers": "1.35.0"}
# The API server takes five minutes on two idle cores.
_BUILD_SECONDS = 5400


def program(name: str) -> Path:
    """``etcd``, ``apiserver`` or ``controllers``. Without Go the test fails: what this runs is the only proof of the port."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-streams-recovery" / "kubernetes"
    built = cache / f"{name}-{_VERSIONS[name]}"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        pytest.fail(f"this needs Go to build {name} of Kubernetes, and go is not on the PATH")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(go, name, built)
    return built


def _build(go: str, name: str, built: Path) -> None:
    unfinished = built.with_name(f"{built.name}.{os.getpid()}")
    arguments = ["build", "-trimpath", "-ldflags=-s -w", "-o", str(unfinished), f"./{name}"]
    done = subprocess.run([go, *arguments], cwd=_SOURCE, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS)
    if done.returncode:
        pytest.fail(f"go {' '.join(arguments)}: {done.stderr[-2000:]}")
    unfinished.replace(built)


def build_all() -> None:
    """Build what is not there yet."""
    for name in _VERSIONS:
        program(name)


if __name__ == "__main__":
    build_all()
