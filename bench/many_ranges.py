"""How long a Spark job takes for many partitions with hardly a record: a consumer for each range, and consumers that a task shares, in one run.

    PYTHONPATH=plugins:. .venv/bin/python bench/many_ranges.py [--partitions 1000] [--each 100]

``--each`` says of how many partitions the slow way is measured. Prints seconds inside the job, with a session that has run a job before. Figures depend
on the machine; the ratio is what to look at. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from spark_jobs.access import JobAccess
from spark_jobs.transforms.range_copy import copy_ranges
from spark_jobs.transforms.task_runner import run_tasks
from streams_recovery.core.jobs.spec import BackupSpec, RangeOutcome, RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.range_copy import copy_what_is_left

LAYOUT = Layout("bench")


@contextmanager
def session(directory: Path) -> Iterator[SparkSession]:
    """Two tasks at once, on this machine."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(directory),
    }
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local[2]").appName("many-ranges")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def fill(connection: KafkaConnection, partitions: int) -> tuple[RangeToCopy, ...]:
    """A topic with one to three records in each partition, and its ranges."""
    topic = f"many-{uuid.uuid4().hex[:8]}"
    with KafkaCluster(connection, timeout=120) as cluster:
        cluster.create_topic(topic, partitions=partitions, replication_factor=1, config={})
    producer = Producer(connection.client_config())
    ranges = []
    for number in range(partitions):
        count = 1 + number % 3
        for at in range(count):
            producer.produce(topic, b"v%d" % at, b"k%d" % number, number)
        ranges.append(RangeToCopy(tp=TopicPartition(topic, number), start=0, end=count, size_hint=count))
    if producer.flush(60):
        raise SystemExit("the broker took too long")
    return tuple(ranges)


def with_a_consumer_each(spark: SparkSession, ranges: tuple[RangeToCopy, ...], access: JobAccess) -> tuple[RangeOutcome, ...]:
    """The copy as it was: nothing is shared."""

    def work(wanted: RangeToCopy) -> RangeOutcome:
        return copy_what_is_left(access.cluster, access.repository(), LAYOUT, wanted, compression_level=3, attempt=uuid.uuid4().hex)()

    return tuple(run_tasks(spark.sparkContext, ranges, work, RangeOutcome, lambda wanted: wanted.size_hint))


def shared(spark: SparkSession, ranges: tuple[RangeToCopy, ...], access: JobAccess) -> tuple[RangeOutcome, ...]:
    """The copy as it is."""
    result = copy_ranges(spark.sparkContext, BackupSpec(application_id="bench", ranges=ranges, compression_level=3), access)
    return tuple(RangeOutcome(copied=(piece,), lost=()) for piece in result.ranges)


def measure(spark: SparkSession, access: JobAccess, ranges: tuple[RangeToCopy, ...], each: int) -> Table:
    """Both ways; which one is first makes no difference once the workers run."""
    shared(spark, ranges[:4], access)
    table = Table("way", "ranges", "seconds", "ms a range", "ratio")
    rates = []
    for name, way, wanted in (("a consumer each", with_a_consumer_each, ranges[:each]), ("shared by a task", shared, ranges)):
        if not wanted:
            continue
        began = time.monotonic()
        outcomes = way(spark, wanted, access)
        seconds = time.monotonic() - began
        copied = [(piece.tp, piece.copied.end) for outcome in outcomes for piece in outcome.copied]
        if copied != [(item.tp, item.end) for item in wanted]:
            raise SystemExit(f"{name} did not copy what was asked for, so its time means nothing")
        rates.append(seconds / len(wanted))
        table.add_row(name, str(len(wanted)), f"{seconds:.1f}", f"{1000 * rates[-1]:.0f}", f"{rates[0] / rates[-1]:.1f}")
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--partitions", type=int, default=1_000)
    arguments.add_argument("--each", type=int, default=100)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-ranges-") as name, Processes(Path(name) / "processes") as processes:
        directory = Path(name)
        port, controller = free_ports(2)
        bootstrap = start_broker(processes, directory / "broker", port=port, controller_port=controller)
        connection = KafkaConnection(bootstrap_servers=bootstrap, properties={})
        location = StorageLocation(backend="filesystem", path=str(directory / "repository"))
        access = JobAccess(connection=connection, location=location, credentials=None)
        ranges = fill(connection, asked.partitions)
        with session(directory) as spark:
            Console().print(measure(spark, access, ranges, asked.each))


if __name__ == "__main__":
    main()
