"""Finding a Java that is new enough."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from streams_recovery.core.errors import ConfigInvalid

MINIMUM = 17
# For the JVM of Spark. A job here takes seconds, and an optimizing compiler would spend half of its processor time on code that never runs again.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# The same for brokers and applications here, which live for minutes on few cores; and no file in the temporary directory for each of them.
QUICK = (*SHORT_JOBS.split(), "-XX:-UsePerfData")


def find_java() -> Path:
    """The ``java`` of JAVA_HOME or PATH. Raises ``ConfigInvalid`` when there is none or it is older than 17."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ConfigInvalid(
            f"no Java was found ({'JAVA_HOME is ' + home if home else 'not on PATH'})",
            next_step=f"install a JDK {MINIMUM} or newer, for example Eclipse Temurin, or set JAVA_HOME",
        )
    version = java_version(found)
    if version is None or version < MINIMUM:
        raise ConfigInvalid(
            f"{found} is Java {version or 'of an unknown version'}, {MINIMUM} or newer is needed",
            next_step=f"install a JDK {MINIMUM} or set JAVA_HOME to one",
            path=found,
            version=version,
        )
    return Path(found)


def java_version(java: str) -> int | None:
    """The feature version a ``java`` reports (8, 11, 17, ...), None when it does not say."""
    match = re.search(r'version "(?:1\.)?(\d+)', _version_text(java))
    return int(match.group(1)) if match else None


def java_identity(java: Path) -> str:
    """The identity of a Java: what it says of itself, where it is, and the state of its library. Class archives and compiled classes depend on it."""
    home = java.resolve().parents[1]
    library = [
        f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}"
        for path in (home / "lib/modules", home / "lib/server/libjvm.so")
        if path.exists()
    ]
    return "\n".join([str(java.resolve()), _version_text(str(java)), *library])


def _version_text(java: str) -> str:
    # Asking takes a twentieth of a second, and some are asked many times. An update of Java replaces the file.
    stat = Path(java).stat()
    return _ask_version(java, stat.st_mtime_ns, stat.st_ino)


@functools.lru_cache(maxsize=16)
def _ask_version(java: str, _changed: int, _file: int) -> str:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    return answer.stderr + answer.stdout
