"""A quick start of Spark jobs on one machine: what makes it is prepared once in the Python environment and checked at each use.

- A Spark home of links that leaves out ``python/lib``. Spark puts the zips there before everything else, and Python keeps no bytecode of what it
  imports from a zip: driver, daemon and workers would compile all of pyspark at each start. Without them they import the installed package.
- An archive of the classes that a job loads (Java's dynamic class data sharing, ``-XX:ArchiveClassesAtExit``), for the flags that jobs start with.
  A JVM leaves an archive aside, without a word, that is not of its own version, flags and jars. So its name has a hash of all of these: after a
  change there is none of that name, and it is made anew. So is one that was truncated or changed, with which a JVM may crash.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from embedded.built import built, files_state
from embedded.class_archive import Program, accepted
from embedded.java import SHORT_JOBS, find_java, java_identity
from embedded.ports import HOST
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.engine.spark_home import SPARK_HOME, installed_spark

HOME: Final = Path(sys.prefix) / "share" / "kafka-streams-recovery" / "spark"
_LINKS: Final = ("bin", "jars", "sbin")
_JOB: Final = Path(__file__).with_name("typical_job.py")
_SETTINGS: Final = ("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.execution.arrow.pyspark.enabled=true")
_SECONDS: Final = 300
_KEPT_SECONDS: Final = 7 * 24 * 3600


def environment(home: Path = HOME) -> dict[str, str]:
    """The variables that a process needs that submits jobs, or runs a session of its own. Prepares what is missing or no longer matches: 20 s, once.

    Raises ``ConfigInvalid`` when Java makes no archive.
    """
    archive = prepare(home)
    return {
        SPARK_HOME: str(home),
        "SPARK_HOME": str(home),
        "SPARK_SUBMIT_OPTS": f"{SHORT_JOBS} -XX:SharedArchiveFile={archive}",
        "SPARK_LAUNCHER_OPTS": SHORT_JOBS,  # for the small JVM that only puts the command line together
    }


def prepare(home: Path = HOME) -> Path:
    """Make the home at ``home`` and its archive, unless both are there and match. Returns the archive. Many processes may ask at once."""
    archive = home / f"classes-{_fingerprint(home)}.jsa"
    return built(archive, lambda target: _make(home, target), good=functools.partial(accepted, program(home)))


def program(home: Path = HOME) -> Program:
    """A job of the home at ``home``, with the class path that Spark's launcher gives it."""
    jars = installed_jars()
    # The launcher puts this one before all others, so that Spark's logging is the one that is bound.
    first = [f"{home}/jars/{jar.name}" for jar in jars if jar.name.startswith("slf4j-api-")]
    pattern = ":".join([f"{home}/conf", *first, f"{home}/jars/*"])
    return Program(name="spark", class_path=jars, flags=tuple(SHORT_JOBS.split()), pattern=pattern)


def installed_jars() -> tuple[Path, ...]:
    """The jars of the installed Spark."""
    return tuple(sorted((installed_spark() / "jars").glob("*.jar")))


def _fingerprint(home: Path) -> str:
    # Java compares the paths and times of the jars with those it has archived.
    parts = [SHORT_JOBS, str(home), java_identity(find_java()), _JOB.read_text(), *files_state(installed_jars())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _make(home: Path, target: Path) -> None:
    sys.stderr.write("preparing Spark (once) ...\n")
    for name in _LINKS:
        (home / name).unlink(missing_ok=True)
        # Resolved: the environment may be a link in a checkout that goes away before this one does.
        (home / name).symlink_to((installed_spark() / name).resolve())
    _archive_classes(home, target)
    drop_old_archives(home)


def drop_old_archives(home: Path) -> None:
    """Delete the archives that were made more than a week ago. Younger ones stay: checkouts that share one environment by a link have one each."""
    for old in home.glob("classes-*.jsa"):
        if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
            old.unlink(missing_ok=True)  # a JVM that has it open keeps it


def _archive_classes(home: Path, target: Path) -> None:
    variables = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": f"{SHORT_JOBS} -XX:ArchiveClassesAtExit={target}",
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-submit"), *_SETTINGS, str(_JOB)]
    done = subprocess.run(command, cwd=target.parent, env=variables, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if not accepted(program(home), target):
        raise ConfigInvalid(
            f"this Java made no archive of Spark's classes that it takes: {(done.stdout + done.stderr)[-600:]}",
            next_step="use a Java 17 or newer with class data sharing, such as Eclipse Temurin, and run make setup again",
        )
