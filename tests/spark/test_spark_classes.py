"""The archive that set-up leaves is one that Spark's JVM takes: a JVM would leave aside, without a word, one that does not fit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from embedded import spark_classes
from streams_recovery.jobs.submit import find_spark_home

pytestmark = pytest.mark.spark


def test_classes_of_spark_come_from_the_archive(tmp_path: Path) -> None:
    told = tmp_path / "classes"
    home = str(find_spark_home())
    environment = os.environ | {"SPARK_HOME": home, "SPARK_SUBMIT_OPTS": f"{spark_classes.options()} -Xlog:class+load:file={told}"}
    subprocess.run([f"{home}/bin/spark-submit", "--version"], env=environment, check=True, capture_output=True)
    (source,) = (line.split("source: ")[1] for line in told.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit " in line)
    assert source == "shared objects file (top)"
