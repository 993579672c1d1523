"""Programs that exist as Go modules or as packages of npm only, made once and kept in the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from embedded.jars import cache_directory
from streams_recovery.core.errors import ConfigInvalid, TransientError

_SECONDS: Final = 900


class NotInstalled(ConfigInvalid):
    """Raised where a program is needed that makes others, and this machine has none."""


def go_program(name: str, package: str, version: str) -> Path:
    """The program built from ``package`` (its module path and folder). Raises ``NotInstalled`` without Go.

    Built inside a module of its own: ``go install`` refuses modules whose go.mod excludes or replaces others.
    """
    cache = cache_directory() / "go"
    program = cache / f"{name}-{version}"
    if program.exists():
        return program
    [go] = _found(name, "go")
    with _alone(cache, name):
        if not program.exists():
            _build(go, name, package, version, program)
    return program


def node_program(package: Path, script: str) -> list[str]:
    """The command that runs ``script`` of what the folder ``package`` has pinned (``package.json``, ``package-lock.json``). Raises ``NotInstalled`` without
    Node.js.
    """
    node, npm = _found(package.name, "node", "npm")
    cache, pinned = cache_directory() / "node", (package / "package-lock.json").read_bytes()
    home = cache / package.name
    home.mkdir(parents=True, exist_ok=True)
    with _alone(cache, package.name):
        done = home / "installed"
        if not done.exists() or done.read_bytes() != pinned:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(package / name, home / name)
            _run([npm, "ci", "--omit", "dev", "--no-audit", "--no-fund", "--ignore-scripts"], home)
            done.write_bytes(pinned)
    return [node, str(home / "node_modules" / script)]


def _found(what: str, *programs: str) -> list[str]:
    paths = [shutil.which(program) for program in programs]
    if None in paths:
        raise NotInstalled(f"{what} needs {' and '.join(programs)}, which are not on the PATH", next_step="install them, or do without it")
    return [path for path in paths if path is not None]


@contextmanager
def _alone(cache: Path, name: str) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, name: str, package: str, version: str, program: Path) -> None:
    with tempfile.TemporaryDirectory() as module:
        for arguments in (["mod", "init", "built"], ["get", f"{package}@{version}"], ["build", "-o", name, package]):
            _run([go, *arguments], Path(module))
        built = program.with_suffix(f".{os.getpid()}")
        shutil.move(Path(module) / name, built)
        built.replace(program)


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        raise TransientError(f"{' '.join(command)}: {done.stderr[-2000:]}", next_step="see that its registry can be reached, and try again")
