"""Real servers that exist as packages of npm only, installed once and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_INSTALL_SECONDS = 600


def node_program(package: Path, script: str) -> list[str]:
    """The command that runs ``script`` of what the folder ``package`` has pinned (``package.json``, ``package-lock.json``). Without Node.js the test is
    skipped and says what it did not check.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip(f"NOT checked: this needs Node.js for {package.name}, and node and npm are not on the PATH")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-streams-recovery" / "node"
    pinned = (package / "package-lock.json").read_bytes()
    home = cache / package.name
    home.mkdir(parents=True, exist_ok=True)
    with (cache / f"{package.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = home / "installed"
        if not done.exists() or done.read_bytes() != pinned:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(package / name, home / name)
            command = [npm, "ci", "--omit", "dev", "--no-audit", "--no-fund", "--ignore-scripts"]
            found = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS)
            if found.returncode:
                pytest.fail(f"{' '.join(command)}: {found.stderr[-2000:]}")
            done.write_bytes(pinned)
    return [node, str(home / "node_modules" / script)]
