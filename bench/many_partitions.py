"""Savepoints of an application with very many partitions: of everything, without any news, and with one new record in each of them.

    PYTHONPATH=plugins:. .venv/bin/python bench/many_partitions.py [--partitions 10000] [--each 100]

One broker, changelogs of ``--each`` partitions, and the command line as a user calls it. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.speed import Bench, Command, bench
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups

ID = "many"
INPUT = TopicPartition(f"{ID}.in", 0)
_GONE = [{"name": "one", "state": "gone", "streams_state": None, "closed_cleanly": True, "detail": "none"}]


def main() -> None:
    """Take the three savepoints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--each", type=int, default=100)
    asked = parser.parse_args()
    console = Console(width=120)
    topics = {f"{ID}-store{number}-changelog": asked.each for number in range(asked.partitions // asked.each)}
    table = Table("savepoint", "seconds", "processor s", "broker's", "MB of a worker")
    with tempfile.TemporaryDirectory() as directory, bench(Path(directory)) as stage:
        began = time.monotonic()
        create(stage, topics)
        console.print(f"{asked.partitions:,} partitions were created in {time.monotonic() - began:.0f} s")
        for what, write in (("of everything", True), ("without news", False), ("with a record in each", True)):
            if write:
                one_record_each(stage, topics)
            done = stage.command([sys.executable, "-m", "streams_recovery", "backup", "bench"], {})
            console.print(f"{what}: {done.whole:.1f} s")
            table.add_row(what, *_figures(done))
    console.print(table)


def _figures(done: Command) -> tuple[str, ...]:
    return f"{done.whole:.1f}", f"{done.cpu:.1f}", f"{done.broker_cpu:.1f}", str(done.memory or "-")


def create(stage: Bench, topics: dict[str, int]) -> None:
    """Topics, the group's offset, and an application that is stopped."""
    connection = KafkaConnection(bootstrap_servers=stage.bootstrap, properties={})
    with KafkaCluster(connection, timeout=600) as cluster, ConsumerGroups(connection) as groups:
        cluster.create_topics({INPUT.topic: (1, 1, {"retention.ms": "-1"})})
        cluster.create_topics({name: (partitions, 1, {"cleanup.policy": "compact"}) for name, partitions in topics.items()})
        groups.set_offsets(ID, {INPUT: CommittedOffset(offset=0, metadata="", leader_epoch=None)})
    says = [sys.executable, "-I", "-S", "-c", f"print({json.dumps(json.dumps(_GONE))})"]
    config = {
        "version": 1,
        "name": "bench",
        "application": {"id": ID, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": [INPUT.topic]},
        "storage": {"backend": "filesystem", "path": str(stage.directory / "repository")},
        "backup": {"survive_cluster_loss": False, "consistency": {"mode": "stop"}},
        "runs": {"kind": "command", "command": dict.fromkeys(("status", "stop", "start", "wipe"), says)},
    }
    (stage.directory / "repository").mkdir()
    (stage.directory / "configs").mkdir()
    (stage.directory / "configs" / "bench.yaml").write_text(json.dumps(config))


def one_record_each(stage: Bench, topics: dict[str, int]) -> None:
    """A record in every partition."""
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 50})
    for topic, partitions in topics.items():
        for partition in range(partitions):
            producer.produce(topic, b"value", b"key", partition)
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit("the broker took too long")


if __name__ == "__main__":
    main()
