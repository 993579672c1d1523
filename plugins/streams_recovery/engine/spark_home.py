"""The Spark that submits jobs, and the code that its tasks need: one zip that is the same bytes for the same files.

Python stores no bytecode of modules that it imports from a zip, so a driver and each worker would compile all of them again, for a third of a second each. So
the installation's bytecode is put beside the sources. A Python of another version leaves it aside.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.project_files import ProjectFiles, project_files

SPARK_HOME: Final = "STREAMS_RECOVERY_SPARK_HOME"
_VERSIONED: Final = "spark-core_*.jar"

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_RINGS: Final = ("core", "kafka", "segments", "serdes", "storage")
# Compiled code too, for every kind of machine, and what it was compiled from: workers need not be machines like this one.
_CARRIED: Final = (".py", ".c", ".so.1")
# Zip has no time zone and no time before 1980.
_ALWAYS: Final = (1980, 1, 1, 0, 0, 0)
_HEADER: Final = 16
_UNCHECKED: Final = 1
_32_BITS: Final = 2**32 - 1


def find_spark_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory that ``STREAMS_RECOVERY_SPARK_HOME`` names, else that of the pyspark package. Raises ``ConfigInvalid`` when there is none, or when the
    named one has another version than the pyspark package: its JVM and the driver's Python would not understand each other.
    """
    installed, named = installed_spark(), environment.get(SPARK_HOME)
    if not named:
        return installed
    home = Path(named)
    wanted, found = _version(installed), _version(home)
    if found != wanted or not (home / "bin" / "spark-submit").exists():
        raise ConfigInvalid(
            f"{SPARK_HOME} is {home}, which has {', '.join(found) or 'no Spark'}; the pyspark package has {', '.join(wanted)}",
            next_step=f"name a Spark of the same version in {SPARK_HOME}, or do not set it",
            path=named,
        )
    return home


def installed_spark() -> Path:
    """The Spark that the pyspark package brings. Raises ``ConfigInvalid`` when it is not installed."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigInvalid("pyspark is not installed in this environment", next_step="install requirements.txt here")
    return Path(found.origin).parent


def _version(home: Path) -> list[str]:
    return sorted(jar.name for jar in (home / "jars").glob(_VERSIONED))


def build_package(directory: Path, *, files: ProjectFiles | None = None) -> Path:
    """The zip for ``--py-files`` in ``directory``, made when it is not there yet, with the bytecode that this Python has stored. Its name has the hash of
    its content.

    Old ones stay: a running job may still need its own.
    """
    sources = dict(_sources(files or project_files()))
    data = _zipped(sources)
    path = directory / f"streams-recovery-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        _write_beside(path, data)
    return path


def _sources(files: ProjectFiles) -> Iterator[tuple[str, Path]]:
    yield "streams_recovery/__init__.py", _PACKAGE / "__init__.py"
    for base, below in [(_PACKAGE.parent, _PACKAGE / ring) for ring in _RINGS] + [(files.root, files.jobs)]:
        for path in sorted(below.rglob("*")):
            if path.name.endswith(_CARRIED):
                yield path.relative_to(base).as_posix(), path


def _zipped(sources: Mapping[str, Path]) -> bytes:
    buffer = io.BytesIO()
    # Stored, not deflated: the bytes must not depend on the version of zlib.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(sources):
            source = sources[name].read_bytes()
            bytecode = _stored_bytecode(sources[name], source) if name.endswith(".py") else None
            for written, data in ((name, source), (f"{name}c", bytecode)):
                if data is None:
                    continue
                entry = zipfile.ZipInfo(written, _ALWAYS)
                entry.external_attr = 0o644 << 16
                entry.create_system = 3
                archive.writestr(entry, data)
    return buffer.getvalue()


def _stored_bytecode(path: Path, source: bytes) -> bytes | None:
    """The bytecode of a source as an import from a zip takes it without a look at dates; None if none is stored, or only that of another state."""
    try:
        stored = Path(importlib.util.cache_from_source(path)).read_bytes()
    except (OSError, NotImplementedError):
        return None
    seconds = int(path.stat().st_mtime)
    # PEP 552: magic number, flags, then time and size of the source.
    now = b"".join(number.to_bytes(4, "little") for number in (0, seconds & _32_BITS, len(source) & _32_BITS))
    if stored[:_HEADER] != importlib.util.MAGIC_NUMBER + now:
        return None
    return importlib.util.MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + importlib.util.source_hash(source) + stored[_HEADER:]


def _write_beside(path: Path, data: bytes) -> None:
    # Two submitters may build at once: each writes its own file, and the rename makes one of two equal ones visible, whole.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        # An existing package is not looked into: it must not be empty after a power cut.
        os.fsync(file.fileno())
    Path(name).chmod(0o644)
    Path(name).rename(path)
