"""How long a rescale takes beside a plain restore of the same savepoint: all in one run, on one broker, by the command line as a user calls it.

    PYTHONPATH=plugins:. .venv/bin/python bench/rescale_time.py [--records 2000000] [--partitions 4 6 3]

Prints a row for the restore and one for each number of partitions after the first, with their ratios to the restore.
Figures depend on the machine; the ratio is what to look at. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.bare import Case
from bench.speed import Bench, Command, Subject, bench
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups

_CASE = Case(name="rescale", text="records of 170 bytes", value_bytes=150)
_VALUE = '{"customer":"customer-%011d","total":%d,"currency":"EUR","status":"%s","updated":%d,"lines":[%d,%d,%d]}'
_STATUS = ("new", "paid", "packed", "sent", "returned")


def build(on: Subject, partitions: int) -> None:
    """Topics, a changelog whose records lie where their keys put them, each key twice on average, and the group's offsets."""
    connection = KafkaConnection(bootstrap_servers=on.bench.bootstrap, properties={})
    inputs = [TopicPartition(on.input.topic, number) for number in range(partitions)]
    with KafkaCluster(connection) as cluster, ConsumerGroups(connection) as groups:
        cluster.create_topics(
            {on.input.topic: (partitions, 1, {"retention.ms": "-1"}), on.topic: (partitions, 1, {"cleanup.policy": "compact"})}
        )
        groups.set_offsets(on.id, dict.fromkeys(inputs, CommittedOffset(offset=0, metadata="", leader_epoch=None)))
    producer = Producer(
        {"bootstrap.servers": on.bench.bootstrap, "linger.ms": 20, "partitioner": "murmur2", "queue.buffering.max.messages": 500_000}
    )
    for number in range(on.records):
        key, mixed = number * 2_654_435_761 % (on.records // 2 or 1), number * 40_503 % 2**32
        value = _VALUE % (key, mixed % 100_000, _STATUS[mixed % 5], 1_764_500_000_000 + number, mixed % 97, mixed % 89, mixed % 83)
        producer.produce(on.topic, value.encode(), b"customer-%011d" % key)
        if number % 100_000 == 0:
            producer.flush(60)
    if producer.flush(120):
        raise SystemExit("the broker took too long")


def configure(on: Subject) -> None:
    """The application's configuration. Its input is archived, so that it can be created again."""
    on.configure(on.bench.directory / "repository")
    (on.bench.directory / "repository").mkdir()
    file = on.bench.directory / "configs" / "bench.yaml"
    config = json.loads(file.read_text())
    config["topics"]["include"] = [on.input.topic]
    # Waiting for producers is no work.
    config["restore"] = {"producers_still_seconds": 1}
    del config["spark"]
    file.write_text(json.dumps(config))


def approved(stage: Bench, *words: str) -> Command:
    """A command that replaces state, with the plan that it is shown."""
    command = [sys.executable, "-m", "streams_recovery", words[0], "bench", *words[1:]]
    plan = stage.command([*command, "--plan", "--json"], {})
    return stage.command([*command, "--reason", "bench", "--approve", json.loads(plan.printed[plan.printed.index("{") :])["hash"]], {})


def measure(on: Subject, numbers: Sequence[int]) -> Table:
    """The restore, then the rescales, each from a savepoint of what the last one has left."""
    backup = [sys.executable, "-m", "streams_recovery", "backup", "bench"]
    on.running.touch()
    on.bench.command(backup, {})
    on.lose()
    table = Table("what", "seconds", "processor s", "ratio", "ratio of processor s")
    plain = approved(on.bench, "restore")
    table.add_row("restore", f"{plain.whole:.1f}", f"{plain.cpu:.1f}", "1.00", "1.00")
    for before, number in itertools.pairwise(numbers):
        on.bench.command(backup, {})
        done = approved(on.bench, "rescale", "--partitions", f"{on.input.topic}={number}")
        ratios = done.whole / plain.whole, done.cpu / plain.cpu
        table.add_row(f"rescale {before} to {number}", f"{done.whole:.1f}", f"{done.cpu:.1f}", *(f"{one:.2f}" for one in ratios))
    return table


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[4, 6, 3])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rescale-time-") as directory, bench(Path(directory)) as stage:
        on = Subject(bench=stage, case=_CASE, records=asked.records)
        build(on, asked.partitions[0])
        configure(on)
        Console(width=120).print(measure(on, asked.partitions))


if __name__ == "__main__":
    main()
