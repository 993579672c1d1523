"""What set-up has prepared is what Spark takes: a JVM would leave aside, without a word, an archive that does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded import spark_start
from embedded.class_archive import usable
from streams_recovery.engine.spark_home import find_spark_home

pytestmark = pytest.mark.spark


def test_classes_of_spark_come_from_the_archive(tmp_path: Path) -> None:
    told = tmp_path / "classes"
    prepared = spark_start.environment()
    options = f"{prepared['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={told}"
    environment = os.environ | prepared | {"SPARK_SUBMIT_OPTS": options}
    subprocess.run([f"{prepared['SPARK_HOME']}/bin/spark-submit", "--version"], env=environment, check=True, capture_output=True)
    (source,) = (line.split("source: ")[1] for line in told.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit " in line)
    assert source == "shared objects file (top)"


@pytest.mark.deep
def test_half_an_archive_and_a_changed_one_are_made_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    archive = spark_start.prepare(home)
    whole = archive.read_bytes()
    middle = len(whole) // 2
    for content in (whole[:middle], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :] + b"x"):
        archive.unlink()  # as a file it is read-only
        archive.write_bytes(content)
        assert not usable(spark_start.program(home), archive)
    assert spark_start.prepare(home) == archive
    assert usable(spark_start.program(home), archive)


@pytest.mark.deep
def test_driver_and_worker_import_the_installed_pyspark_which_has_bytecode(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(
        "import pyspark\n"
        "from pyspark.sql import SparkSession\n"
        "session = SparkSession.builder.getOrCreate()\n"
        "def seen(batches):\n"
        "    import pyarrow as pa, pyspark\n"
        "    yield pa.record_batch([pa.array([pyspark.__file__])], names=['file'])\n"
        "rows = session.range(1).mapInArrow(seen, 'file string').collect()\n"
        "print(pyspark.__file__, rows[0].file)\n"
    )
    environment = os.environ | spark_start.environment() | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [f"{find_spark_home()}/bin/spark-submit", "--master", "local[1]", "--conf", "spark.ui.enabled=false", str(job)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    driver, worker = done.stdout.splitlines()[-1].split()
    assert driver == worker
    assert ".zip" not in driver
