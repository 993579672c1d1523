"""Archives of the classes that a Java program loads: with one a JVM starts in half of the time.

Java's dynamic class data sharing (``-XX:ArchiveClassesAtExit``). A JVM that cannot use an archive says nothing and starts slowly, one that is given
half an archive crashes, and one that is given none where it expects one leaves aside even its own. So an archive has the hash of all that it
depends on in its name, is tried before it is used, and is made again, or its lack is told, when it is of no use.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from embedded.built import built, files_state
from embedded.jars import cache_directory
from embedded.java import find_java, java_identity
from streams_recovery.core.errors import Damaged, RecoveryError

# Runs the program once, to a normal end, with this option beside its flags: the JVM writes the archive as it ends.
Exercise = Callable[[str], None]
WRITES = "-XX:ArchiveClassesAtExit="
_SUFFIX, _FAILED = ".jsa", ".failed"
_KEPT_SECONDS = 14 * 24 * 3600
_TRY_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The things that an archive depends on, beside the Java: the class path, in its order, and the JVM's flags. A program whose class path only begins like
    this one can use the archive too. ``name`` tells people whose archive it is; ``pattern`` is the class path as a launcher writes it that leaves the order
    to Java, like ``jars/*``.
    """

    name: str
    class_path: tuple[Path, ...]
    flags: tuple[str, ...]
    pattern: str = ""

    @property
    def key(self) -> str:
        """Differs when the archive of another program, or another Java, would be needed."""
        parts = [java_identity(find_java()), *self.flags, self.pattern, *files_state(self.class_path)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def joined_class_path(self) -> str:
        """As ``-cp`` takes it."""
        return self.pattern or ":".join(map(str, self.class_path))


def options(program: Program, exercise: Exercise) -> tuple[str, ...]:
    """The program's flags, and its archive where there can be one: what ``java`` is to be called with."""
    archive = archive_of(program, exercise)
    return (*program.flags, f"-XX:SharedArchiveFile={archive}") if archive else program.flags


def archive_of(program: Program, exercise: Exercise, *, again: bool = False) -> Path | None:
    """The archive of this program, made by ``exercise`` if there is none that can be used. None when this cannot be done, which is told once; it is
    tried again when something has changed, or if ``again``.
    """
    archive = _directory() / f"{program.name}-{program.key}{_SUFFIX}"
    failed = archive.with_suffix(_FAILED)
    if again:
        failed.unlink(missing_ok=True)
    if not failed.exists():
        try:
            built(archive, lambda target: _make(program, exercise, target), good=functools.partial(accepted, program))
        except (RecoveryError, OSError, subprocess.SubprocessError) as error:
            failed.write_text(f"{type(error).__name__}: {error}\n")
    if failed.exists():
        _tell_once(
            f"no archive of the classes of {program.name}, so it starts slowly: {failed.read_text().strip()}; `python -m embedded.prepare` tries again"
        )
        return None
    with contextlib.suppress(OSError):  # somebody else's
        archive.touch()  # the time of its last use
    return archive


def usable(program: Program, archive: Path) -> bool:
    """Return True if a JVM with the program's flags and class path takes the archive, whole and unchanged."""
    strict = [
        "-Xshare:on",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:+VerifySharedSpaces",
        "-XX:ErrorFile=/dev/null",
        f"-XX:SharedArchiveFile={archive}",
    ]
    command = [str(find_java()), *program.flags, *strict, "-cp", program.joined_class_path, "-version"]
    return subprocess.run(command, capture_output=True, check=False, timeout=_TRY_SECONDS).returncode == 0


def accepted(program: Program, archive: Path) -> bool:
    """Return True if the archive is there and ``usable``. A process tries each file once: nobody changes one in place."""
    try:
        stat = archive.stat()
    except FileNotFoundError:
        return False
    return _tried(program, archive, f"{stat.st_size} {stat.st_ino}")


@functools.lru_cache(maxsize=64)
def _tried(program: Program, archive: Path, _state: str) -> bool:
    return usable(program, archive)


def _make(program: Program, exercise: Exercise, target: Path) -> None:
    sys.stderr.write(f"preparing {program.name} (once) ...\n")
    exercise(f"{WRITES}{target}")
    if not target.exists():
        raise Damaged("this Java wrote none", next_step="use a JDK of OpenJDK, for example Eclipse Temurin")
    if not usable(program, target):
        raise Damaged("this Java does not take what it wrote", next_step="use another JDK, for example Eclipse Temurin")
    _forget_old(program.name)


def _directory() -> Path:
    directory = cache_directory() / "classes"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _forget_old(name: str) -> None:
    # Each change of a program leaves an archive of tens of megabytes behind. Who has one open keeps it.
    for archive in _directory().glob(f"{name}-*{_SUFFIX}"):
        if archive.stat().st_mtime < time.time() - _KEPT_SECONDS:
            archive.unlink(missing_ok=True)


@functools.cache
def _tell_once(message: str) -> None:
    sys.stderr.write(message + "\n")
