"""An application that moves values between its stores by the clock, in long transactions (``MovingValues.java``), and the sums that must stay."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer

from embedded.processes import Processes
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.savepoint.cut import Readings
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.applications.small import RUNNING, STOPPED, says
from tests.support.kafka.records_below import records_below
from tests.support.programs.java import STREAMS, command_of

PROGRAM = STREAMS / "MovingValues.java"
PARTITIONS = 3
STORES = ("left", "right")
_SECONDS = 120


@dataclass(frozen=True)
class Moving:
    """The application, running."""

    recovery: RecoveryContext
    input: str
    keys: int

    def feed(self, numbers: range) -> None:
        """One record for a key of each partition, for each number; all acknowledged."""
        producer = Producer({"bootstrap.servers": self.recovery.connection.bootstrap_servers, "log_level": 0})
        for number in numbers:
            for partition in range(PARTITIONS):
                producer.produce(self.input, b"%d" % (number + 1), b"%d-%d" % (partition, number % self.keys), partition)
        assert producer.flush(30) == 0

    def changelogs(self) -> list[TopicPartition]:
        names = [f"{self.recovery.application_id}-{store}-changelog" for store in STORES]
        return [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]

    def await_moves(self) -> None:
        """Wait until what was fed is processed, and every task has moved its values."""
        inputs, group = [TopicPartition(self.input, number) for number in range(PARTITIONS)], self.recovery.application_id

        def moved() -> bool | None:
            if not {tp.topic for tp in self.changelogs()} <= {*self.recovery.cluster.topic_names()}:
                return None
            committed = self.recovery.groups.committed(group, inputs)
            behind = [tp for tp, end in self.recovery.cluster.high_watermarks(inputs).items() if getattr(committed[tp], "offset", 0) < end]
            fewest = min(self.recovery.cluster.last_stable_offsets(self.changelogs()).values())
            return True if not behind and fewest > self.keys else None

        assert poll(moved, seconds=_SECONDS, interval=0.5), "the application does not process, or moves nothing"


@contextmanager
def moving(bootstrap: str, directory: Path, *, keys: int) -> Iterator[Moving]:
    """The application with ``keys`` keys in each partition, started, and gone at the end."""
    name = f"moving{uuid.uuid4().hex[:8]}"
    config = {
        "version": 1,
        "name": "moving",
        "application": {"id": name, "guarantee": "exactly_once_v2"},
        "topics": {"inputs": [f"{name}.in"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "backup": {"survive_cluster_loss": False, "consistency": {"mode": "live", "timeout_seconds": 60}},
        "runs": {
            "kind": "command",
            "command": {"status": says(RUNNING), "stop": says(STOPPED), "start": ["true"], "wipe": ["true"]},
        },
    }
    (directory / "moving.yaml").write_text(json.dumps(config))
    kafka = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})}
    with (
        open_context(load_named("moving", directory, {}), EnvironmentConnections(kafka)) as recovery,
        Processes(directory / "processes") as processes,
    ):
        found = Moving(recovery, f"{name}.in", keys)
        recovery.cluster.create_topic(found.input, partitions=PARTITIONS, replication_factor=1, config={})
        try:
            found.feed(range(keys))
            arguments = [bootstrap, name, found.input, str(directory / "state"), str(keys)]
            processes.start("moving", [*command_of(PROGRAM), *arguments])
            found.await_moves()
            yield found
        finally:
            processes.stop("moving")
            recovery.cluster.delete_topics([topic for topic in recovery.cluster.topic_names() if topic.startswith(name)])


@dataclass
class Sums:
    """What has come in for each key, and what both stores have of it. Reading goes on where it stopped: a later cut costs what came since."""

    moving: Moving
    came: Counter[bytes] = field(default_factory=Counter)
    kept: dict[TopicPartition, dict[bytes, int]] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def wrong(self, cut: Readings) -> int:
        """How many keys of a cut have another sum than came in below its committed offsets."""
        ends = {**cut.ends, **{tp: committed.offset for tp, committed in cut.committed_before.items() if committed}}
        for tp, message in records_below(self.moving.recovery.connection.bootstrap_servers, ends, self._ends):
            key, value = message.key() or b"", message.value() or b""
            if tp.topic == self.moving.input:
                self.came[key] += int(value)
            else:
                self.kept.setdefault(tp, {})[key] = int.from_bytes(value, "big", signed=True)
        self._ends = ends
        sums: Counter[bytes] = Counter()
        for values in self.kept.values():
            sums.update(values)
        return sum(sums[key] != self.came[key] for key in {*sums, *self.came})
