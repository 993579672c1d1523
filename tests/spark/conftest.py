"""One Spark session for the tier, set up as a submitted job finds it: code from the package, secrets in nobody's arguments."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid

import pytest

from streams_recovery.core.location import StorageLocation
from tests.spark.rows import connect


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    from streams_recovery.jobs.package import build_package

    return build_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def spark(package, tmp_path_factory):
    # A place of their own for temporary files: tests look at what is left there, and other runs use this machine too.
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    os.environ |= {
        "TMPDIR": tempfile.tempdir,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.submit.pyFiles": str(package),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connection(bootstrap):
    return connect(bootstrap)


@pytest.fixture
def location(tmp_path):
    return StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))


@pytest.fixture
def access(connection, location):
    from spark_jobs.access import Access

    return Access(connection=connection, location=location, credentials=None)


@pytest.fixture
def new_key():
    return lambda name: f"app/work/run/{name}-{uuid.uuid4().hex}.json"
