"""A word count that works exactly once (``NamedCounts.java``), fed all the time, and the truth about each cut of it by the names of its transactions."""

from __future__ import annotations

import os
import random
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer

from embedded.processes import Processes
from streams_recovery.core.errors import TransientError
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.core.named_transactions.cut import NamedCut, cut_at_names
from streams_recovery.core.named_transactions.readings import read_named
from streams_recovery.core.repository.manifest import Manifest, partition_images
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.application_logs import ApplicationLogs
from streams_recovery.kafka.cluster import KafkaCluster
from streams_recovery.kafka.connection import KafkaConnection
from streams_recovery.kafka.groups import ConsumerGroups
from streams_recovery.kafka.named_transactions import NamedLogs
from streams_recovery.kafka.transactions import Transactions
from streams_recovery.operations.context import RecoveryContext
from tests.support.beside import beside
from tests.support.kafka.records_below import records_below
from tests.support.programs.java import STREAMS, command_of

PROGRAM = STREAMS / "NamedCounts.java"
PARTITIONS = 3
WORDS = tuple(f"w{number:02d}" for number in range(30))
_SECONDS = 120
Log = list[tuple[int, bytes, bytes]]


@dataclass(kw_only=True)
class NamedCounts:
    """The application. ``instances`` are the names of its processes that are running."""

    bootstrap: str
    processes: Processes
    directory: Path
    protocol: str
    # Whether each task writes to each partition of the output.
    spread: bool = False
    # The topic of another application that it reads; else one of its own.
    source: str = ""
    id: str = field(default_factory=lambda: f"named{uuid.uuid4().hex[:8]}")
    instances: list[str] = field(default_factory=list)
    fed: int = 0

    def topics(self, *names: str) -> list[TopicPartition]:
        return [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]

    @property
    def inputs(self) -> list[TopicPartition]:
        return self.topics(self.source or f"{self.id}.in")

    @property
    def outputs(self) -> list[TopicPartition]:
        return self.topics(f"{self.id}.out")

    @property
    def between(self) -> list[TopicPartition]:
        return self.topics(f"{self.id}-words-repartition")

    @property
    def changelogs(self) -> list[TopicPartition]:
        return self.topics(*(f"{self.id}-{store}-changelog" for store in ("left", "right", "counts")))

    @property
    def counted(self) -> list[TopicPartition]:
        return self.changelogs[-PARTITIONS:]

    def command(self, state: Path) -> list[str]:
        """What runs an instance with its state in this directory."""
        return [
            *command_of(PROGRAM),
            self.bootstrap,
            self.id,
            self.inputs[0].topic,
            f"{self.id}.out",
            str(state),
            self.protocol,
            *(["spread"] if self.spread else []),
        ]

    def start(self) -> None:
        """One more instance."""
        name = f"{self.id}-{len(self.instances)}-{uuid.uuid4().hex[:4]}"
        self.processes.start(name, self.command(self.directory / name))
        self.instances.append(name)

    def kill(self) -> None:
        """The oldest instance is gone at once."""
        name = self.instances.pop(0)
        os.kill(self.processes.recorded()[name][0], signal.SIGKILL)
        self.processes.stop(name)

    @contextmanager
    def feeding(self, rate: int) -> Iterator[None]:
        """While this lasts, so many lines a second come in."""

        def feed(stopped: threading.Event) -> None:
            producer, dice = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "log_level": 0}), random.Random(7)
            while not stopped.wait(0.02):
                for _ in range(max(1, rate // 50)):
                    line = " ".join(dice.choice(WORDS) for _ in range(3))
                    producer.produce(self.inputs[0].topic, line.encode(), partition=self.fed % PARTITIONS)
                    self.fed += 1
                producer.poll(0)
            producer.flush(30)

        with beside(feed):
            yield

    @contextmanager
    def reader(self, meanwhile: Callable[[], object] = lambda: None) -> Iterator[NamedLogs]:
        """Reads its logs. ``meanwhile`` is called in the middle of each look."""
        connection = KafkaConnection.from_extra({"bootstrap.servers": self.bootstrap}, where="the tests' broker")
        with (
            KafkaCluster(connection) as cluster,
            ConsumerGroups(connection) as groups,
            Transactions(connection) as transactions,
        ):
            logs = ApplicationLogs(
                application_id=self.id,
                cluster=cluster,
                groups=groups,
                transactions=transactions,
                read=(),
                clock=lambda: 0,
                patience=60,
                loads=tuple,
            )
            with _Disturbed(connection, logs, meanwhile) as found:
                yield found

    def look(self, reader: NamedLogs) -> NamedCut:
        logs = [*self.changelogs, *self.between, *self.outputs]
        return cut_at_names(read_named(reader, logs, patience=60), self.changelogs, self.outputs)

    def await_work(self, reader: NamedLogs) -> None:
        """Wait until all topics are there and something was committed on each of those that are read."""

        def works() -> bool | None:
            try:
                return True if {*self.inputs, *self.between} <= {*reader.committed()} else None
            except TransientError:
                return None

        assert poll(works, seconds=_SECONDS, interval=0.5), "the application does not process"

    def await_more(self, reader: NamedLogs) -> None:
        """Wait until each partition of its input, and what came of it, was read further than now."""
        before = reader.committed()
        read = [*self.inputs, *self.between]
        more = poll(lambda: all(reader.committed()[tp].offset > before[tp].offset for tp in read) or None, seconds=_SECONDS, interval=0.2)
        assert more, "the application does not process any more"

    def await_end(self, reader: NamedLogs) -> bool:
        """Wait until all input is read, and what came of it too."""

        def ended() -> bool | None:
            committed = reader.committed()
            ends = reader.last_stable_offsets([*self.inputs, *self.between])
            return True if all(tp in committed and committed[tp].offset >= end - 1 for tp, end in ends.items()) else None

        return bool(poll(ended, seconds=_SECONDS, interval=0.5))


class _Disturbed(NamedLogs):
    def __init__(self, connection: KafkaConnection, logs: ApplicationLogs, meanwhile: Callable[[], object]) -> None:
        super().__init__(connection, logs)
        self._meanwhile = meanwhile

    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        found = super().committed()
        self._meanwhile()
        return found


@contextmanager
def named_counts(bootstrap: str, directory: Path, protocol: str) -> Iterator[NamedCounts]:
    """The application, with its topics and no instance. All of it is gone at the end."""
    connection = KafkaConnection.from_extra({"bootstrap.servers": bootstrap}, where="the tests' broker")
    with Processes(directory / "processes") as processes, KafkaCluster(connection) as cluster:
        found = NamedCounts(bootstrap=bootstrap, processes=processes, directory=directory, protocol=protocol)
        for topic in (found.inputs[0].topic, found.outputs[0].topic):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=1, config={})
        try:
            yield found
        finally:
            processes.stop_all()
            cluster.delete_topics([topic for topic in cluster.topic_names() if topic.startswith(found.id)])


@dataclass
class Truth:
    """All that the application's logs have at the end, read as committed."""

    counts: NamedCounts
    logs: Mapping[TopicPartition, Log]

    @classmethod
    def of(cls, counts: NamedCounts, reader: NamedLogs) -> Truth:
        partitions = [*counts.inputs, *counts.changelogs, *counts.between, *counts.outputs]
        logs: dict[TopicPartition, Log] = {tp: [] for tp in partitions}
        for tp, message in records_below(counts.bootstrap, reader.last_stable_offsets(partitions)):
            logs[tp].append((message.offset() or 0, message.key() or b"", message.value() or b""))
        return cls(counts, logs)

    def wrong(self, cut: NamedCut) -> list[str]:
        """What is not as an application has it that has read its committed offsets, and nothing else."""
        logs = {tp: self._kept(cut, tp) for tp in cut.logs}
        found = self.wrong_state(cut.committed, logs)
        shown = newest(logs, self.counts.outputs)
        return found if shown == newest(logs, self.counts.counted) else [*found, "the outputs do not end where the state ends"]

    def wrong_state(self, committed: Mapping[TopicPartition, CommittedOffset], logs: Mapping[TopicPartition, Log]) -> list[str]:
        """The same of what ``logs`` have of its changelogs and repartition topics."""
        found: list[str] = []
        words: Counter[bytes] = Counter()
        for tp in self.counts.inputs:
            read = committed[tp].offset
            stores = [one for one in self.counts.changelogs[: 2 * PARTITIONS] if one.partition == tp.partition]
            lines = sum(newest(logs, [log]).get(b"lines", 0) for log in stores)
            if lines != read:
                found.append(f"of {read} lines of {tp} {lines} are counted")
            for offset, _, value in self.logs[tp]:
                words.update(value.split(b" ") if offset < read else ())
        unread = Counter(key for tp in self.counts.between for offset, key, _ in logs[tp] if offset >= committed[tp].offset)
        counted = Counter(newest(logs, self.counts.counted))
        if counted + unread != words:
            found.append(f"words differ: {(words - counted - unread).total()} too few, {(counted + unread - words).total()} too many")
        return found

    def _kept(self, cut: NamedCut, tp: TopicPartition) -> Log:
        here = cut.logs[tp]
        out = {offset for one in here.excluded for offset in range(one.first, one.last + 1)}
        return [record for record in self.logs[tp] if record[0] < here.end and record[0] not in out]


def saved_logs(recovery: RecoveryContext, manifest: Manifest) -> dict[TopicPartition, Log]:
    """The records that a savepoint has, by partition."""
    found: dict[TopicPartition, Log] = {}
    for tp, image in partition_images(manifest.topics).items():
        rows = found.setdefault(tp, [])
        for file in image.files():
            table = pq.read_table(Path(str(recovery.config.storage.path)) / file.key, columns=["offset", "key", "value"])
            # The last file may go on behind the end of a cut.
            rows += [(row["offset"], row["key"] or b"", row["value"] or b"") for row in table.to_pylist() if row["offset"] < image.end]
    return found


def newest(logs: Mapping[TopicPartition, Log], partitions: list[TopicPartition]) -> dict[bytes, int]:
    return {key: _number(value) for tp in partitions for _, key, value in logs[tp]}


def _number(value: bytes) -> int:
    return int.from_bytes(value[-8:], "big")
