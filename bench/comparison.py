"""What it costs to know that a load is equal to its savepoint: the load with its digest, the read-back, and the comparison key by key that both replace.

    PYTHONPATH=plugins:. .venv/bin/python bench/comparison.py [--records 2000000] [--partitions 4] [--bytes 134] [--keys 500000] [--repeat 1]

One broker, one run, ``spark-submit`` on two cores; a key has 16 bytes, a value ``--bytes``. Seconds are those inside the jobs, but where it says submission.
Prints a table; it asserts nothing about time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.core import codec
from streams_recovery.core.jobs.spec import (
    BackupResult,
    BackupSpec,
    PartitionToLoad,
    PartitionToVerify,
    RangeCopied,
    RangeToCopy,
    RestoreResult,
    RestoreSpec,
    VerifyResult,
    VerifySpec,
)
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.location import StorageLocation
from streams_recovery.core.repository.manifest import SegmentFile
from streams_recovery.core.repository.segment_files import SegmentFiles
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.engine.child_process import run_submit, tail
from streams_recovery.engine.outcome import read_outcome
from streams_recovery.engine.package import build_package
from streams_recovery.engine.secrets import secrets_file
from streams_recovery.engine.spark_submit import JobFiles, JobName, spark_call, submit_argv
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.producers import Producers
from streams_recovery.kafka.writer import PartitionWriter
from streams_recovery.segments.schema import SEGMENT_SCHEMA, RowDigest, header_array
from streams_recovery.storage.receipts import read_receipt
from streams_recovery.storage.repository import Repository

SOURCE, TARGET, MASTER = "bench-source", "bench-target", "local[2]"
STEP, PIECE = 20_000, 500_000
R = TypeVar("R")


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
                spec=ArtifactRef.of(spec_key, written),
                result_key=result_key,
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
    """It, gone at the end."""
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


def fill(on: Stage, load: Load) -> None:
    """The records, in the source's topic."""
    create(on, SOURCE, load)
    with Producers(on.connection) as producers:
        for partition in load.logs:
            with PartitionWriter(producers, TopicPartition(SOURCE, partition), expected_end=0) as writer:
                for batch in batches(load, partition):
                    writer.write(batch)
                writer.finish()


def create(on: Stage, topic: str, load: Load) -> str:
    """An empty topic; its id."""
    with KafkaCluster(on.connection) as cluster:
        cluster.delete_topics([topic])
        return cluster.create_topic(topic, partitions=load.partitions, replication_factor=1, config=restore_hold({})).topic_id


def archive(on: Stage, load: Load) -> dict[int, tuple[SegmentFile, ...]]:
    """The source as segments, by partition."""
    ranges = tuple(
        RangeToCopy(tp=TopicPartition(SOURCE, number), start=start, end=min(start + PIECE, load.of_partition), size_hint=PIECE)
        for number in load.logs
        for start in range(0, load.of_partition, PIECE)
    )
    result, _ = on.submit("backup", BackupSpec(application_id="app", ranges=ranges, compression_level=3), BackupResult)
    return {number: tuple(_file(done) for done in result.ranges if done.tp.partition == number) for number in load.logs}


def _file(done: RangeCopied) -> SegmentFile:
    if done.copied.file is None:
        raise SystemExit(f"{done.tp} was archived without a row: there is nothing to measure")
    return done.copied.file


def loaded(on: Stage, load: Load, files: dict[int, tuple[SegmentFile, ...]]) -> tuple[RestoreResult, float, str]:
    """The load with its read-back, what it took to submit, and the id of the topic."""
    topic_id = create(on, TARGET, load)
    partitions = tuple(
        PartitionToLoad(tp=TopicPartition(TARGET, number), first_offset=0, files=SegmentFiles.of(files[number])) for number in load.logs
    )
    result, whole = on.submit("restore", RestoreSpec(application_id="app", partitions=partitions), RestoreResult)
    found = {one.tp.partition: one.digest for one in result.read}
    if len(found) != load.partitions or any(found[one.tp.partition] != one.digest for one in result.partitions):
        raise SystemExit("what was read back is not what was loaded, so its time means nothing")
    return result, whole, topic_id


def key_by_key(on: Stage, load: Load, files: dict[int, tuple[SegmentFile, ...]], topic_id: str) -> tuple[VerifyResult, float]:
    """The comparison of everything, as it was before."""
    pairs = tuple(
        PartitionToVerify(
            tp=TopicPartition(TARGET, number),
            target_topic=TARGET,
            topic_id=topic_id,
            start=0,
            end=load.of_partition,
            files=SegmentFiles.of(files[number]),
        )
        for number in load.logs
    )
    result, whole = on.submit("verify", VerifySpec(application_id="app", partitions=pairs, keyed=(TARGET,)), VerifyResult)
    if not all(one.equal for one in result.partitions) or not sum(one.keys_compared for one in result.keys):
        raise SystemExit("the comparison found a difference or no key, so its time means nothing")
    return result, whole


def digest_rate(load: Load) -> float:
    """Records a second that one core digests."""
    rows = list(batches(load, 0))
    digest, began = RowDigest(), time.perf_counter()
    for batch in rows:
        digest.update(batch)
    return digest.rows / (time.perf_counter() - began)


def measure(on: Stage, load: Load, repeat: int) -> Table:
    """All of it."""
    fill(on, load)
    files = archive(on, load)
    title = f"{load.records:,} records of {load.value_bytes + 16} bytes in {load.partitions} partitions, {load.keys:,} keys"
    table = Table("round", "load", "read back", "submission", "key by key (the old way)", "submission", title=title)
    for number in range(repeat):
        result, whole, topic_id = loaded(on, load, files)
        old, all_of_it = key_by_key(on, load, files, topic_id)
        seconds = (result.seconds, result.read_seconds, whole, old.seconds, all_of_it)
        table.add_row(str(number + 1), *(f"{value:.1f} s" for value in seconds))
    table.caption = f"one core digests {digest_rate(load):,.0f} records a second"
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("records", 2_000_000), ("partitions", 4), ("bytes", 134), ("keys", 500_000), ("repeat", 1)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    asked = arguments.parse_args()
    load = Load(records=asked.records, partitions=asked.partitions, value_bytes=asked.bytes, keys=asked.keys)
    with tempfile.TemporaryDirectory(prefix="comparison-") as directory, stage(Path(directory)) as on:
        Console().print(measure(on, load, asked.repeat))


if __name__ == "__main__":
    main()
