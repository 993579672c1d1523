"""Jars, first of all Kafka's and Kafka Streams': resolved once by the Ivy that Spark ships, kept in a cache, checked against committed hashes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyspark

from embedded.java import find_java
from streams_recovery.core.errors import ConfigInvalid, Damaged, TransientError

KAFKA_VERSION = "4.4.0"
_MARK = ".checked"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that are fetched together: ``modules`` (group, name, version) with all that they need but the groups in ``without``, which others bring; or
    ``alone``, where others bring all of it. ``lock`` has the hash of each. ``name`` is their folder in the cache, ``megabytes`` about how much is downloaded.
    """

    name: str
    modules: tuple[tuple[str, str, str], ...]
    lock: Path
    megabytes: int
    without: tuple[str, ...] = ()
    alone: bool = False


KAFKA = JarSet(
    name=f"kafka-{KAFKA_VERSION}",
    modules=(
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        ("org.apache.kafka", "kafka-streams", KAFKA_VERSION),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ),
    lock=Path(__file__).with_name("jars.lock"),
    megabytes=120,
)


def cache_directory() -> Path:
    """The directory in which jars are kept between runs: STREAMS_RECOVERY_CACHE, else the user's cache directory."""
    chosen = os.environ.get("STREAMS_RECOVERY_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "kafka-streams-recovery"


def kafka_jars() -> Path:
    """A directory with Kafka's jars: see ``fetched``."""
    return fetched(KAFKA)


def fetched(jars: JarSet) -> Path:
    """A directory with exactly the locked jars. The first call on a machine downloads them. Raises ``Damaged`` when a hash differs."""
    target = cache_directory() / jars.name
    if not (target / _MARK).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as work:
            resolved = _resolve(jars, Path(work))
            check(resolved, jars)
            (resolved / _MARK).touch()
            _install(resolved, target)
    if _fingerprint(target) != (target / _MARK).read_text():
        check(target, jars)
        (target / _MARK).write_text(_fingerprint(target))
    return target


def jar_files(jars: JarSet = KAFKA) -> tuple[Path, ...]:
    """The jars one by one, in an order that is always the same: archives of classes depend on it."""
    return tuple(sorted(fetched(jars).glob("*.jar")))


def check(directory: Path, jars: JarSet = KAFKA) -> None:
    """Raise ``Damaged`` unless the jars of ``directory`` are those of the lock file, byte for byte."""
    locked = {name: digest for digest, name in (line.split("  ", 1) for line in jars.lock.read_text().splitlines())}
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


def _resolve(jars: JarSet, work: Path) -> Path:
    sys.stderr.write(f"fetching {jars.name} (about {jars.megabytes} MB, once) ...\n")
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    (work / "ivy.xml").write_text(_description(jars))
    pattern = str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command = [str(find_java()), "-jar", str(ivy), "-ivy", str(work / "ivy.xml"), "-cache", str(work / "cache"), "-retrieve", pattern]
    with (work / "ivy.log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode or not any((work / "jars").glob(f"{jars.modules[0][1]}-*.jar")):
        tail = (work / "ivy.log").read_text(errors="replace")[-600:]
        raise TransientError(
            f"{jars.name} could not be fetched: {tail}", next_step="check that Maven Central can be reached; later runs need no network"
        )
    return work / "jars"


def _description(jars: JarSet) -> str:
    dependencies = "".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" transitive="{str(not jars.alone).lower()}"/>'
        for org, name, rev in jars.modules
    )
    left_out = "".join(f'<exclude org="{org}"/>' for org in jars.without)
    return (
        '<ivy-module version="2.0"><info organisation="streams-recovery" module="embedded"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}{left_out}</dependencies></ivy-module>'
    )


def _install(resolved: Path, target: Path) -> None:
    try:
        resolved.rename(target)
    except OSError:
        # Another process was faster, or left half a directory.
        if not (target / _MARK).exists():
            shutil.rmtree(target, ignore_errors=True)
            resolved.rename(target)


def write_lock(jars: JarSet) -> None:
    """Write the lock file anew from what is fetched now: for whoever changes a version."""
    with tempfile.TemporaryDirectory() as scratch:
        found = sorted(_resolve(jars, Path(scratch)).glob("*.jar"))
        jars.lock.write_text("".join(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in found))


if __name__ == "__main__":
    if sys.argv[1:] != ["lock"]:
        raise ConfigInvalid("unknown arguments", next_step="python -m embedded.jars lock")
    write_lock(KAFKA)
