"""What encryption costs: records of 1 KB copied from a broker into a directory, and read back, in clear and encrypted by turns, in one run.

    PYTHONPATH=plugins:. .venv/bin/python bench/encryption.py [--records 200000] [--rounds 5]

Prints processor time of this process, threads of all libraries included: the copy is what a task of a savepoint does, the reading what a check does. The
median of the rounds counts; the ratio is what to look at. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import base64
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from spark_jobs.transforms.check import check_file
from streams_recovery.core.jobs.spec import RangeToCopy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.check import FileToCheck
from streams_recovery.core.repository.encryption import KeyAccess, KeyPlace
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.core.repository.segment_file import SegmentFile
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.range_copy import copy_what_is_left
from streams_recovery.storage.repository import Repository

T = TypeVar("T")

LAYOUT = Layout("bench")
CLEAR, ENCRYPTED = "in clear", "encrypted"


def fill(connection: KafkaConnection, records: int) -> RangeToCopy:
    """A log of records of 1 KB that compress to about a half, as JSON does."""
    tp = TopicPartition(f"encryption-{uuid.uuid4().hex[:8]}", 0)
    with KafkaCluster(connection, timeout=120) as cluster:
        cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={})
    producer = Producer(connection.client_config())
    for number in range(records):
        producer.produce(tp.topic, os.urandom(256).hex().encode() + b"0123456789abcdef" * 32, b"key-%d" % number, 0)
        if number % 10_000 == 0:
            producer.flush()
    if producer.flush(60):
        raise SystemExit("the broker took too long")
    return RangeToCopy(tp=tp, start=0, end=records, size_hint=records)


def copied(connection: KafkaConnection, repository: Repository, wanted: RangeToCopy) -> SegmentFile:
    """What a task of a savepoint does."""
    key = repository.data_keys.writing(LAYOUT.application_id)
    done = copy_what_is_left(connection, repository, LAYOUT, wanted, compression_level=3, attempt=uuid.uuid4().hex, key=key)()
    (piece,) = done.copied
    if piece.copied.file is None or piece.copied.file.rows != wanted.end:
        raise SystemExit("not all was copied, so its time means nothing")
    return piece.copied.file


def read(repository: Repository, wanted: RangeToCopy, file: SegmentFile) -> None:
    """What a task of a check does."""
    found = check_file(repository, LAYOUT, FileToCheck(tp=wanted.tp, start=wanted.start, end=wanted.end, file=file, savepoints=()))
    if found.cause is not None:
        raise SystemExit(f"{file.key}: {found.problems}")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Processor time of a call, and what it returned."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def measure(connection: KafkaConnection, repositories: dict[str, Repository], wanted: RangeToCopy, rounds: int) -> Table:
    """By turns, so that a busy moment of the machine meets both."""
    spent: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds + 1):
        for name, repository in repositories.items():
            copying, file = timed(partial(copied, connection, repository, wanted))
            reading, _ = timed(partial(read, repository, wanted, file))
            # The first round starts what is started once.
            if number:
                spent.setdefault(("copy", name), []).append(copying)
                spent.setdefault(("read and check", name), []).append(reading)
    table = Table("work", CLEAR, ENCRYPTED, "more")
    for work in ("copy", "read and check"):
        clear, encrypted = (1_000_000 * statistics.median(spent[work, name]) / wanted.end for name in (CLEAR, ENCRYPTED))
        table.add_row(work, f"{clear:.2f} µs a record", f"{encrypted:.2f} µs a record", f"{100 * (encrypted / clear - 1):+.1f} %")
    return table


def main() -> None:
    """Run it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=200_000)
    arguments.add_argument("--rounds", type=int, default=5)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="encryption-") as name, Processes(Path(name) / "processes") as processes:
        directory = Path(name)
        port, controller = free_ports(2)
        connection = KafkaConnection(
            bootstrap_servers=start_broker(processes, directory / "broker", port=port, controller_port=controller), properties={}
        )
        place = KeyPlace(provider="local", address="", options={"secret": base64.b64encode(os.urandom(32)).decode()})
        repositories = {
            told: Repository(StorageLocation(backend="filesystem", path=str(directory / told)), encryption=access)
            for told, access in ((CLEAR, None), (ENCRYPTED, KeyAccess(places=(place,))))
        }
        Console().print(measure(connection, repositories, fill(connection, asked.records), asked.rounds))


if __name__ == "__main__":
    main()
