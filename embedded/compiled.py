"""Java programs of one source file, compiled once instead of at each start."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from functools import partial
from pathlib import Path

from embedded.built import built, files_state
from embedded.jars import cache_directory
from embedded.java import find_java, java_identity
from streams_recovery.core.errors import ConfigInvalid

_COMPILER = "jdk.compiler"
_SECONDS = 300


def compiled(source: Path, class_path: tuple[Path, ...]) -> Path:
    """A jar with the classes of ``source``, kept beside Kafka's jars. Another source, class path or Java has another jar. Raises ``ConfigInvalid``
    when it does not compile, or this Java has no compiler.
    """
    parts = [java_identity(find_java()), *files_state(class_path), source.read_text()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return built(cache_directory() / "compiled" / f"{source.stem}-{key}.jar", partial(_compile, source, class_path))


def _compile(source: Path, class_path: tuple[Path, ...], target: Path) -> None:
    # The compiler as a module of the Java that will run it: a `javac` on PATH may be another one's.
    command = [str(find_java()), "-m", f"{_COMPILER}/com.sun.tools.javac.Main", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    with tempfile.TemporaryDirectory(dir=target.parent) as classes:
        arguments = ["-cp", ":".join(map(str, class_path)), "-d", classes, str(source)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS)
        if done.returncode:
            _refuse(source, done.stdout + done.stderr)
        with zipfile.ZipFile(target, "w") as jar:
            for file in sorted(Path(classes).rglob("*.class")):
                jar.write(file, file.relative_to(classes))


def _refuse(source: Path, answer: str) -> None:
    if f"Module {_COMPILER} not found" in answer:
        raise ConfigInvalid(
            f"{find_java()} is a runtime without a compiler, which the example application needs",
            next_step="install a JDK, for example Eclipse Temurin, or set JAVA_HOME to one",
        )
    raise ConfigInvalid(f"{source} does not compile: {answer[-1500:]}", next_step="correct it")
