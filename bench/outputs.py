"""What it costs to compare the outputs of two applications key by key: two topics of equal records but for one, by the Spark job as it is submitted.

    PYTHONPATH=plugins:. .venv/bin/python bench/outputs.py [--records 1000000] [--partitions 4] [--bytes 134] [--keys 500000]

One broker, ``spark-submit`` on two cores. Seconds are those inside the job, of the whole submission, and of all cores together, which other work on the machine
changes least. Memory is the highest of one Python worker as the kernel counted it, and of all processes of the job together. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.figures import core_seconds
from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import JobOrder
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.outputs.comparison import OutputPair, OutputRange, OutputsResult, OutputsSpec
from streams_recovery.core.outputs.keys import KeyCounts, ReadBy
from streams_recovery.core.outputs.values import RecordForm
from streams_recovery.core.repository.layout import StorageLocation
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.engine.spark_home import build_package
from streams_recovery.engine.spark_submit import JobFiles, JobName, read_outcome, secrets_file, spark_call, submit_argv
from streams_recovery.engine.submitter import run_submit, tail
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.writer import PartitionWriter, Producers
from streams_recovery.segments.schema import SEGMENT_SCHEMA, header_array
from streams_recovery.storage.objects import read_receipt
from streams_recovery.storage.repository import Repository

SOURCE, TARGET, MASTER = "bench-source", "bench-target", "local[2]"
STEP: Final = 20_000
R = TypeVar("R")
MB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """So many records in so many partitions, with values of so many bytes and so many keys."""

    records: int
    partitions: int
    value_bytes: int
    keys: int

    @property
    def of_partition(self) -> int:
        """Records of each."""
        return self.records // self.partitions

    @property
    def logs(self) -> list[int]:
        """The numbers of the partitions."""
        return list(range(self.partitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A broker, and a repository for what jobs write and say."""

    connection: KafkaConnection
    repository: Repository
    directory: Path

    def submit(self, job: JobName, spec: Any, kind: type[R]) -> tuple[R, float]:
        """One job to its end, and the seconds of the whole submission."""
        name = f"app/work/run/{job}-{time.monotonic_ns()}"
        spec_key, result_key = f"{name}-spec.json", f"{name}-result.json"
        written = codec.dumps(spec)
        self.repository.create(spec_key, written)
        began = time.monotonic()
        with secrets_file(self.connection, None) as secrets:
            files = JobFiles(package=build_package(self.directory), secrets=secrets, receipt=self.directory / f"{job}.receipt")
            call = spark_call(
                job,
                order=JobOrder(spec=ArtifactRef.of(spec_key, written), result_key=result_key),
                location=self.repository.location,
                files=files,
                master=MASTER,
            )
            log = self.directory / f"{job}.log"
            run_submit(submit_argv(call, MASTER), call.environment, log=log)
            read_outcome(self.repository, read_receipt(call.receipt), result_key, kind, log_tail=tail(log))
        return codec.loads(kind, self.repository.get(result_key), where=result_key), time.monotonic() - began


@contextmanager
def stage(directory: Path) -> Iterator[Stage]:
    """A broker and a repository, gone at the end."""
    port, controller = free_ports(2)
    (directory / "repository").mkdir()
    with Processes(directory / "processes") as processes:
        bootstrap = start_broker(processes, directory / "broker", port=port, controller_port=controller)
        yield Stage(
            connection=KafkaConnection(bootstrap_servers=bootstrap, properties={}),
            repository=Repository(StorageLocation(backend="filesystem", path=str(directory / "repository"))),
            directory=directory,
        )


def batches(load: Load, partition: int) -> Iterator[pa.RecordBatch]:
    """The records of one partition."""
    for start in range(0, load.of_partition, STEP):
        numbers = range(start, min(start + STEP, load.of_partition))
        noise = os.urandom(load.value_bytes * len(numbers))
        yield pa.record_batch(
            [
                pa.array(numbers, pa.int64()),
                pa.array([1_700_000_000_000 + number for number in numbers], pa.int64()),
                pa.array([0] * len(numbers), pa.int8()),
                pa.array([b"key-%012d" % (number % max(1, load.keys // load.partitions)) for number in numbers], pa.binary()),
                pa.array([noise[at * load.value_bytes : (at + 1) * load.value_bytes] for at in range(len(numbers))], pa.binary()),
                header_array([None if (number + partition) % 4 else [("n", b"%d" % number)] for number in numbers]),
            ],
            schema=SEGMENT_SCHEMA,
        )


def create(on: Stage, topic: str, load: Load) -> str:
    """An empty topic; its id."""
    with KafkaCluster(on.connection) as cluster:
        cluster.delete_topics([topic])
        return cluster.create_topic(topic, partitions=load.partitions, replication_factor=1, config=restore_hold({})).topic_id


class Peaks:
    """The most memory of a Python worker, and of all processes of a job together, in MiB, of what is submitted meanwhile."""

    def __init__(self) -> None:
        self.worker = self.together = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.1):
            sizes = list(self._sizes())
            self.worker = max([self.worker, *(mark for worker, mark, _ in sizes if worker)])
            self.together = max(self.together, sum(size for _, _, size in sizes))

    def _sizes(self) -> Iterator[tuple[bool, int, int]]:
        """Of each process: whether it is a Python worker, its high-water mark, and what it has now that it does not share, or its share of that."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error, OSError):
                marked = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
                worker = "pyspark.daemon" in process.cmdline()
                yield worker, int(marked[1]) // 1024 if marked else 0, process.memory_full_info().pss // MB

    def _processes(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            submitted = [child for child in psutil.Process().children() if any("SparkSubmit" in word for word in child.cmdline())]
            return [one for child in submitted for one in (child, *child.children(recursive=True))]
        return []


def fill(on: Stage, load: Load) -> None:
    """Both topics: the same records, and the last one of the last partition with another value."""
    for topic in (SOURCE, TARGET):
        create(on, topic, load)
    with Producers(on.connection) as producers:
        for partition in load.logs:
            with (
                PartitionWriter(producers, TopicPartition(SOURCE, partition), expected_end=0) as real,
                PartitionWriter(producers, TopicPartition(TARGET, partition), expected_end=0) as other,
            ):
                for batch in batches(load, partition):
                    real.write(batch)
                    last = partition == load.logs[-1] and batch.column("offset")[-1].as_py() == load.of_partition - 1
                    other.write(_changed(batch) if last else batch)
                real.finish()
                other.finish()


def _changed(batch: pa.RecordBatch) -> pa.RecordBatch:
    values = batch.column("value").to_pylist()
    return batch.set_column(batch.schema.get_field_index("value"), "value", pa.array([*values[:-1], b"changed"], pa.binary()))


def spec_of(load: Load, way: ReadBy) -> OutputsSpec:
    """All of both topics."""

    def ranges(topic: str) -> tuple[OutputRange, ...]:
        end = load.of_partition
        return tuple(OutputRange(tp=TopicPartition(topic, number), start=0, settled=end, end=end) for number in load.logs)

    pair = OutputPair(output=SOURCE, other=TARGET, way=way, form=RecordForm(), here=ranges(SOURCE), there=ranges(TARGET), by_partition=True)
    return OutputsSpec(application_id="app", pairs=(pair,), shown=False)


def measure(on: Stage, load: Load) -> Table:
    """Both ways to read an output."""
    fill(on, load)
    records, keys = load.of_partition * load.partitions, min(load.of_partition, load.keys // load.partitions) * load.partitions
    title = f"{records:,} records of {load.value_bytes + 16} bytes on each side in {load.partitions} partitions, {keys:,} keys"
    table = Table("way", "in the job", "submission", "of cores", "a worker", "all memory", title=title)
    for way in ReadBy:
        before = core_seconds()
        with Peaks() as peaks:
            result, whole = on.submit("compare_outputs", spec_of(load, way), OutputsResult)
        if result.pairs[0].counts != KeyCounts(equal=keys - 1, different=1, records_here=records, records_there=records):
            raise SystemExit(f"the comparison is wrong, so its time means nothing: {result.pairs[0].counts}")
        seconds = (result.seconds, whole, core_seconds() - before)
        table.add_row(way.value, *(f"{value:.1f} s" for value in seconds), f"{peaks.worker:,} MiB", f"{peaks.together:,} MiB")
    table.caption = f"{os.cpu_count()} cores"
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("records", 1_000_000), ("partitions", 4), ("bytes", 134), ("keys", 500_000)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    asked = arguments.parse_args()
    load = Load(records=asked.records, partitions=asked.partitions, value_bytes=asked.bytes, keys=asked.keys)
    with tempfile.TemporaryDirectory(prefix="outputs-") as directory, stage(Path(directory)) as on:
        Console().print(measure(on, load))


if __name__ == "__main__":
    main()
