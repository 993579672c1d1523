"""An archive of the classes that a Spark job loads, kept in the Python environment: with it the JVM of a job starts in two thirds of the time.

Java's dynamic class data sharing (``-XX:ArchiveClassesAtExit``). A JVM that is not the one the archive was made with, or has other jars, leaves it aside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from embedded.java import SHORT_JOBS
from embedded.ports import HOST
from streams_recovery.jobs.submit import find_spark_home

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_JOB = Path(__file__).with_name("typical_job.py")
_LOCAL = ("--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.execution.arrow.pyspark.enabled=true")
_SECONDS = 300


def options(archive: Path = ARCHIVE) -> str:
    """Options for the JVM of a short job, with ``archive`` where there is one: what ``SPARK_SUBMIT_OPTS`` is to be."""
    return f"{SHORT_JOBS} -XX:SharedArchiveFile={archive}" if archive.exists() else SHORT_JOBS


def make(target: Path = ARCHIVE) -> bool:
    """Run a job that loads what jobs load, and keep its classes at ``target``. False when this Java does not do that, which costs nothing but time."""
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        made = Path(work) / target.name
        environment = {
            **os.environ,
            "SPARK_SUBMIT_OPTS": f"{SHORT_JOBS} -XX:ArchiveClassesAtExit={made}",
            "SPARK_HOME": str(find_spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "PYSPARK_PYTHON": sys.executable,
        }
        spark_submit = str(find_spark_home() / "bin" / "spark-submit")
        subprocess.run([spark_submit, *_LOCAL, str(_JOB)], cwd=work, env=environment, capture_output=True, check=False, timeout=_SECONDS)
        if not made.exists():
            return False
        made.replace(target)
    return True


if __name__ == "__main__":
    if not make():
        print("This Java keeps no archive of classes; Spark jobs will start more slowly.", file=sys.stderr)  # noqa: T201  # for who sets it up
