"""Faust in a Python environment of its own: it pins packages that this project has in other versions. Made once, and kept in the user's cache.

``python -m tests.support.programs.faust`` writes its lock file anew.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

from embedded.built import built
from embedded.jars import cache_directory

FAUST: Final = "faust-streaming[rocksdict]==0.15.3"
LOCK: Final = Path(__file__).with_name("faust.lock")
_UV: Final = Path(sys.executable).with_name("uv")
_SECONDS: Final = 600


def faust_python() -> Path:
    """The Python that has Faust. The first call on a machine downloads it, and refuses files that have other hashes than the lock file says."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    return built(cache_directory() / f"faust-python{version}-{digest}", partial(_make, version=version)) / "bin" / "python"


def _make(target: Path, *, version: str) -> None:
    # It is made beside its place and moved there.
    _run("venv", "--quiet", "--relocatable", "--python", version, str(target))
    _run("pip", "install", "--quiet", "--python", str(target / "bin" / "python"), "--require-hashes", "-r", str(LOCK))


def _run(*arguments: str, given: str | None = None) -> None:
    subprocess.run([str(_UV), *arguments], check=True, timeout=_SECONDS, input=given, text=True)


def write_lock() -> None:
    """Resolve it into a version and the hashes of its files for each package."""
    options = ("--quiet", "--universal", "--python-version", "3.11", "--no-annotate", "--no-header", "--generate-hashes")
    _run("pip", "compile", *options, "-", "-o", str(LOCK), given=FAUST)


if __name__ == "__main__":
    write_lock()
