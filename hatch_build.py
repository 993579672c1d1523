"""Compiles ``gather.c`` for the machines that a wheel is for, as a build hook of hatchling, and by itself: ``python hatch_build.py``.

The compiler is the ``ziglang`` package, which makes both libraries on any machine. Where there is none, as in an installation from sources on another
architecture, the machine's own compiler makes the one for itself. Where there is neither, the package works without: by Python objects.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path(__file__).resolve().parent / "plugins" / "streams_recovery" / "kafka" / "native"
MACHINES = ("x86_64", "aarch64")
# Linked with no C library, so that it fits whichever one the process has.
FLAGS = ("-shared", "-fPIC", "-O2", "-nostdlib", "-s", "-Wall", "-Wextra")


def build(directory: Path = NATIVE) -> list[Path]:
    """Compile for every machine that can be compiled for here. What is there already is left alone, and replaced in one step otherwise: a process may have it
    loaded, and another one may look through the directory.
    """
    source = directory / "gather.c"
    number = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    made = []
    with tempfile.TemporaryDirectory() as work:
        for machine, compiler in _compilers():
            built, path = Path(work) / "built.so", directory / f"gather-{machine}.so.1"
            command = [*compiler, *FLAGS, f"-DSR_SOURCE=0x{number}ULL", str(source), "-o", str(built)]
            caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), work)
            # Of the machine's own compiler nothing is known: where it fails, and says why, the package works without.
            known = compiler[0] == sys.executable
            if subprocess.run(command, check=known, env={**os.environ, **caches}).returncode:
                continue
            if not path.exists() or path.read_bytes() != built.read_bytes():
                beside = path.with_suffix(f".{os.getpid()}")
                shutil.copy(built, beside)
                beside.replace(path)
            made.append(path)
    return made


def _compilers() -> list[tuple[str, list[str]]]:
    if importlib.util.find_spec("ziglang") is not None:
        return [(machine, [sys.executable, "-m", "ziglang", "cc", "-Werror", "-target", f"{machine}-linux-gnu"]) for machine in MACHINES]
    own = shutil.which(os.environ.get("CC", "cc"))
    return [(platform.machine(), [own])] if own and sys.platform == "linux" else []


class CustomBuildHook(BuildHookInterface[Any]):
    """What hatchling calls before it puts a wheel together, or an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # as hatchling calls it
        """Compile. The libraries are not in the repository, so they have to be named."""
        if self.target_name == "wheel":
            build_data["artifacts"] += [f"/{path.relative_to(self.root).as_posix()}" for path in build()]


if __name__ == "__main__":
    for library in build():
        print(library)  # noqa: T201
