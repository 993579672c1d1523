"""What commands cost that have next to nothing to copy: seconds of the clock and of processors, by this checkout, with Spark always, and by another one.

    PYTHONPATH=plugins:. .venv/bin/python bench/starts.py [--rounds 3] [--case nothing --case 60] [--before DIRECTORY]

Cases: a savepoint without news, with 20 records more in one partition and in each of 60, and with 100,000, 1,000,000 and 2,000,000 more in four;
restores of all but the first. ``--before`` is another checkout, which runs with the same Python. It asserts nothing about time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.speed import PROGRAM, PROJECT, Bench, bench
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.topic_holds.log import restore_hold
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups

# Partitions, and records that are new in each. The first savepoint has 20 in each.
CASES: Final = {"nothing": (1, 0), "one": (1, 20), "60": (60, 20), "100000": (4, 25_000), "1000000": (4, 250_000), "2000000": (4, 499_980)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A checkout to run, and whether Spark is to do every job."""

    root: Path
    always: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application of one changelog, whose only input has been read."""

    bench: Bench
    id: str
    partitions: int

    @property
    def changelog(self) -> str:
        """Its topic."""
        return f"{self.id}-data-changelog"

    @property
    def repository(self) -> Path:
        """Its savepoints."""
        return self.bench.directory / f"repository-{self.id}"

    @property
    def running(self) -> Path:
        """A file that is there while it runs."""
        return self.bench.directory / f"{self.id}.running"

    def connection(self) -> KafkaConnection:
        """The broker."""
        return KafkaConnection(bootstrap_servers=self.bench.bootstrap, properties={})

    def build(self) -> None:
        """Topics, records and the group's offset."""
        with KafkaCluster(self.connection(), timeout=120) as cluster, ConsumerGroups(self.connection()) as groups:
            held = restore_hold({"cleanup.policy": "compact"})
            cluster.create_topic(self.changelog, partitions=self.partitions, replication_factor=1, config=held)
            cluster.create_topic(f"{self.id}.in", partitions=1, replication_factor=1, config={"retention.ms": "-1"})
            read = {TopicPartition(f"{self.id}.in", 0): CommittedOffset(offset=0, metadata="", leader_epoch=None)}
            groups.set_offsets(self.id, read)
        self.running.touch()
        self.repository.mkdir()

    def produce(self, partitions: int, each: int) -> None:
        """So many records more in each of the first partitions."""
        producer = Producer(self.connection().client_config())
        for number in range(partitions):
            for at in range(each):
                producer.produce(self.changelog, os.urandom(60) + bytes(60), b"%d" % at, number)
                if at % 10_000 == 0:
                    producer.flush(60)
        if producer.flush(60):
            raise SystemExit("the broker took too long")

    def config(self, name: str) -> dict[str, Any]:
        """Its configuration, under this name."""
        program = self.bench.directory / "program.py"
        verbs = {verb: [sys.executable, "-I", "-S", str(program), str(self.running), verb] for verb in ("status", "stop", "start", "wipe")}
        return {
            "version": 1,
            "name": name,
            "application": {"id": self.id, "guarantee": "exactly_once_v2"},
            "topics": {"inputs": [f"{self.id}.in"]},
            "storage": {"backend": "filesystem", "path": str(self.repository)},
            "backup": {"survive_cluster_loss": False, "consistency": {"mode": "stop"}},
            "runs": {"kind": "command", "command": verbs},
        }

    def configure(self, *, always: bool) -> None:
        """Write its configuration."""
        config = self.config("bench") | ({"spark": {"always": True}} if always else {})
        (self.bench.directory / "configs").mkdir(exist_ok=True)
        (self.bench.directory / "configs" / "bench.yaml").write_text(json.dumps(config))

    def lose(self) -> None:
        """Lose changelog and group."""
        with KafkaCluster(self.connection(), timeout=120) as cluster, ConsumerGroups(self.connection()) as groups:
            cluster.delete_topics([self.changelog])
            groups.delete(self.id)
        self.running.unlink(missing_ok=True)


def measured(on: Bench, case: str, name: str, way: Way, number: int) -> Iterator[tuple[str, float, float]]:
    """What was done, and its seconds of the clock and of processors."""
    partitions, each = CASES[case]
    app = App(bench=on, id=f"starts-{case}-{name}-{number}", partitions=partitions)
    app.build()
    app.configure(always=way.always)
    python = [sys.executable, "-m", "streams_recovery"]
    path = {"PYTHONPATH": os.pathsep.join([str(way.root / "plugins"), str(way.root)])}

    def command(*argv: str) -> tuple[float, float]:
        done = on.command([*python, *argv], path)
        return done.whole, done.cpu

    app.produce(partitions, 20)
    command("backup", "bench")
    app.produce(partitions, each)
    yield ("backup", *command("backup", "bench"))
    if each:
        app.lose()
        plan = on.command([*python, "restore", "bench", "--plan", "--json"], path)
        approved = json.loads(plan.printed[plan.printed.index("{") :])["hash"]
        yield ("restore", *command("restore", "bench", "--reason", "bench", "--approve", approved))
    shutil.rmtree(app.repository)


def ways_of(before: Path | None) -> Mapping[str, Way]:
    """What is compared."""
    ways = {"here": Way(root=PROJECT, always=False), "with Spark": Way(root=PROJECT, always=True)}
    return ways if before is None else {**ways, "before": Way(root=before.resolve(), always=False)}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    ways, found = ways_of(asked.before), dict[tuple[str, str, str], list[tuple[float, float]]]()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, bench(Path(directory)) as on:
        (on.directory / "program.py").write_text(PROGRAM)
        for number in range(asked.rounds):
            for case in asked.case or CASES:
                for name, way in ways.items():
                    for what, wall, used in measured(on, case, name.replace(" ", "-"), way, number):
                        found.setdefault((case, what, name), []).append((wall, used))
                        sys.stderr.write(f"{case}, {what}, {name}: {wall:.1f} s, {used:.1f} s of processors\n")
    table = Table("case", "command", "way", "wall s", "processor s", "wall s (all)")
    for (case, what, name), figures in found.items():
        walls, cores = [wall for wall, _ in figures], [core for _, core in figures]
        row = f"{statistics.median(walls):.1f}", f"{statistics.median(cores):.1f}", " ".join(f"{wall:.1f}" for wall in walls)
        table.add_row(case, what, name, *row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
