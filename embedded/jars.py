"""Kafka's and Kafka Streams' jars: resolved once by the Ivy that Spark ships, kept in a cache, checked against committed hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from embedded.java import find_java
from streams_recovery.core.errors import ConfigInvalid, Damaged, TransientError

KAFKA_VERSION = "4.3.1"
_MODULES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_LOCK = Path(__file__).with_name("jars.lock")
_MARK = ".checked"


def cache_directory() -> Path:
    """Where jars are kept between runs: STREAMS_RECOVERY_CACHE, else the user's cache directory."""
    chosen = os.environ.get("STREAMS_RECOVERY_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "kafka-streams-recovery"


def kafka_jars() -> Path:
    """A directory with exactly the locked jars. The first call on a machine downloads them. Raises ``Damaged`` when a hash differs."""
    target = cache_directory() / f"kafka-{KAFKA_VERSION}"
    if not (target / _MARK).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as work:
            resolved = _resolve(Path(work))
            check(resolved)
            (resolved / _MARK).touch()
            _install(resolved, target)
    if _fingerprint(target) != (target / _MARK).read_text():
        check(target)
        (target / _MARK).write_text(_fingerprint(target))
    return target


def jar_files() -> tuple[Path, ...]:
    """The jars one by one, in an order that is always the same: archives of classes depend on it."""
    return tuple(sorted(kafka_jars().glob("*.jar")))


def check(directory: Path) -> None:
    """Raise ``Damaged`` unless the jars of ``directory`` are those of the lock file, byte for byte."""
    locked = {name: digest for digest, name in (line.split("  ", 1) for line in _LOCK.read_text().splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in directory.glob("*.jar")}
    wrong = sorted(name for name in {*locked, *found} if locked.get(name) != found.get(name))
    if wrong:
        raise Damaged(
            f"jars in {directory} are not the locked ones: {', '.join(wrong[:5])}",
            next_step="remove that directory and run again; if it repeats, the registry serves something else than what was tested",
            jars=wrong,
        )


def _fingerprint(directory: Path) -> str:
    # Hashing 120 MB at every start would cost seconds; sizes and times show any honest change.
    stats = ((jar.name, jar.stat()) for jar in sorted(directory.glob("*.jar")))
    return "".join(f"{name} {stat.st_size} {stat.st_mtime_ns}\n" for name, stat in stats)


def _resolve(work: Path) -> Path:
    sys.stderr.write(f"fetching Kafka {KAFKA_VERSION} (about 120 MB, once) ...\n")
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    dependencies = "".join(f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default"/>' for org, name, rev in _MODULES)
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="streams-recovery" module="embedded"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )
    pattern = str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command = [str(find_java()), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache"), "-retrieve", pattern]
    with (work / "ivy.log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode or not any((work / "jars").glob("kafka_*.jar")):
        tail = (work / "ivy.log").read_text(errors="replace")[-600:]
        raise TransientError(
            f"Kafka's jars could not be fetched: {tail}", next_step="check that Maven Central can be reached; later runs need no network"
        )
    return work / "jars"


def _install(resolved: Path, target: Path) -> None:
    try:
        resolved.rename(target)
    except OSError:
        # Another process was faster, or left half a directory.
        if not (target / _MARK).exists():
            shutil.rmtree(target, ignore_errors=True)
            resolved.rename(target)


def write_lock(directory: Path) -> None:
    """Write the lock file from what is in ``directory``: for whoever changes the version."""
    lines = (f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in sorted(directory.glob("*.jar")))
    _LOCK.write_text("".join(lines))


if __name__ == "__main__":
    if sys.argv[1:] != ["lock"]:
        raise ConfigInvalid("unknown arguments", next_step="python -m embedded.jars lock")
    with tempfile.TemporaryDirectory() as scratch:
        write_lock(_resolve(Path(scratch)))
