"""Finding a Java that is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from streams_recovery.core.errors import ConfigInvalid

MINIMUM = 17
# For the JVM of Spark. A job here takes seconds, and an optimizing compiler would spend half of its processor time on code that never runs again.
SHORT_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def find_java() -> Path:
    """The ``java`` of JAVA_HOME or PATH. Raises ``ConfigInvalid`` when there is none or it is older than 17."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        raise ConfigInvalid(
            f"no Java was found ({'JAVA_HOME is ' + home if home else 'not on PATH'})",
            next_step=f"install a Java runtime {MINIMUM} or newer, for example Eclipse Temurin, or set JAVA_HOME",
        )
    version = java_version(found)
    if version is None or version < MINIMUM:
        raise ConfigInvalid(
            f"{found} is Java {version or 'of an unknown version'}, {MINIMUM} or newer is needed",
            next_step=f"install Java {MINIMUM} or set JAVA_HOME to one",
            path=found,
            version=version,
        )
    return Path(found)


def java_version(java: str) -> int | None:
    """The feature version a ``java`` reports (8, 11, 17, ...), None when it does not say."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match.group(1)) if match else None
