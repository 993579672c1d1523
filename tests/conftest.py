"""What every tier shares: one broker for the whole session, made when the first test asks for it."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from embedded import spark_start
from tests.support import tiers
from tests.support.kafka import shared_broker
from tests.support.programs.lacking import or_skipped
from tests.support.stopwatch import Stopwatch, is_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from embedded.stores.azure import AzureServer
    from embedded.stores.google import GoogleServer
    from embedded.stores.s3 import S3Server
    from streams_recovery.engine.submitter import Submitter
    from tests.support.kafka.secured_broker import Secured
    from tests.support.kafka.three_brokers import ThreeBrokers

# Without bytecode each process that a test starts would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.update(spark_start.environment())
# Connections to a JVM log from their finalizers, at any moment. Where the handler's file is closed by then, Python writes a traceback; written
# while a file is being parsed, it makes Python 3.11 fail with "AST constructor recursion depth mismatch".
logging.getLogger("py4j").setLevel(logging.WARNING)
# A shell starts background jobs with Ctrl-C ignored, and children inherit that. What tests start must be interruptible everywhere.
signal.signal(signal.SIGINT, signal.default_int_handler)


# How long an example takes is a matter of the machine. A failure prints the example, and how to run it again.
settings.register_profile("any machine", deadline=None, print_blob=True)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    shared_broker.register(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch(config.getoption("--shard"), config.getoption("--tier"), whole=is_whole(config)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> tiers.ByGroup:
    return tiers.ByGroup(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tiers.select(config, items)


@pytest.fixture(scope="session")
def bootstrap() -> str:
    """Address of a real broker: the one STREAMS_RECOVERY_TEST_BOOTSTRAP names, else one of our own, which all processes of the run share."""
    return os.environ.get("STREAMS_RECOVERY_TEST_BOOTSTRAP") or shared_broker.address()


@pytest.fixture(scope="module")
def own_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker that nobody else uses: for tests that change what holds for all of its topics."""
    from embedded.broker import start_broker
    from embedded.ports import free_ports
    from embedded.processes import Processes

    directory = tmp_path_factory.mktemp("broker")
    with Processes(directory) as processes:
        port, controller = free_ports(2)
        yield start_broker(processes, directory / "broker", port=port, controller_port=controller)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code that Spark's tasks need."""
    from streams_recovery.engine.spark_home import build_package

    return build_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="session")
def spark(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this process."""
    from tests.support.spark.session import spark_session

    with spark_session(package, tmp_path_factory.mktemp("temporary")) as session:
        yield session


@pytest.fixture(scope="session")
def in_session(spark: SparkSession) -> Submitter:
    """Runs jobs in that session, for tests that are not about how a job is submitted."""
    from tests.support.spark.session import InSession

    return InSession(spark)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server for the whole session."""
    from embedded.stores.s3 import s3_server

    with or_skipped(), s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    """An emulator of Google Cloud Storage for the whole session."""
    from embedded.stores.google import google_server

    with or_skipped(), google_server(tmp_path_factory.mktemp("google")) as server:
        yield server


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """An emulator of Azure Blob Storage for the whole session."""
    from embedded.stores.azure import azure_server

    with or_skipped(), azure_server(tmp_path_factory.mktemp("azure")) as server:
        yield server


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A real broker with TLS, SASL and an authorizer."""
    from tests.support.kafka.secured_broker import secured_broker

    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(scope="session")
def three_brokers_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    """Three real brokers for the whole session. Tests take ``three``."""
    from tests.support.kafka.three_brokers import three_brokers

    with three_brokers(tmp_path_factory.mktemp("three")) as cluster:
        yield cluster


@pytest.fixture
def three(three_brokers_once: ThreeBrokers) -> ThreeBrokers:
    """Three real brokers, all up and with all replicas in sync, whatever the test before did to them."""
    three_brokers_once.whole()
    return three_brokers_once
