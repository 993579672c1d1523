"""The example of Faust on a broker, with its workers as processes, and what its tables must have, computed without it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from embedded.ports import HOST, free_ports
from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.programs.faust import faust_python
from tests.support.project import PROJECT

PARTITIONS = 2
PORTION = 20
# Much for a worker to read when it starts. Without read_on_where_it_was_committed of the example it leaves some of that out.
UNREAD = 300
_ZERO = 1_790_000_000
_VOCABULARY = [f"word{number}" for number in range(7)]


@dataclass(kw_only=True)
class WordCounts:
    """The application, its configuration and its words in ``directory``. A word is said each second."""

    bootstrap: str
    directory: Path
    workers: int = 1
    id: str = field(default_factory=lambda: f"words{uuid.uuid4().hex[:8]}")
    sections: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @property
    def input(self) -> str:
        return f"{self.id}.in"

    @property
    def repartition(self) -> str:
        return f"word_counts.count-{self.input}-Word.text-repartition"

    @property
    def internal(self) -> list[str]:
        """Every topic that Faust makes."""
        return [f"{self.id}-counts-changelog", f"{self.id}-minutes-changelog", self.repartition, f"{self.id}-__assignor-__leader"]

    def configure(self, **sections: Any) -> None:
        """Write the configuration, with these sections laid over the usual ones."""
        self.sections |= sections
        ports = free_ports(self.workers)
        config = {
            "version": 1,
            "name": "word-counts",
            "application": {"id": self.id, "kind": "faust", "guarantee": "at_least_once", "session_timeout_ms": 10_000},
            "topics": {"inputs": [self.input]},
            "stores": {
                "counts": {"kind": "key-value", "key": "json", "value": "json", "queryable": True},
                "minutes": {"kind": "key-value", "key": "json", "value": "json", "queryable": True},
            },
            "storage": {"backend": "filesystem", "path": str(self.directory / "repository")},
            "backup": {"survive_cluster_loss": False},
            "runs": {
                "kind": "process",
                "process": {
                    "directory": str(self.directory / "run"),
                    "working_directory": str(PROJECT / "examples" / "faust"),
                    "command": [
                        str(faust_python()),
                        *(
                            "-m",
                            "faust",
                            "--datadir",
                            "{state_directory}",
                            "-A",
                            "slow_word_counts",
                            "worker",
                            "-l",
                            "info",
                            "--web-port",
                            "{port}",
                        ),
                    ],
                    "environment": {
                        "PYTHONPATH": f"{Path(__file__).with_name('slow_words')}:{PROJECT / 'examples' / 'faust'}",
                        "WORD_COUNTS_ID": self.id,
                        "WORD_COUNTS_BROKER": f"kafka://{self.bootstrap}",
                        "WORD_COUNTS_INPUT": self.input,
                        "WORD_COUNTS_PARTITIONS": str(PARTITIONS),
                    },
                    "control": {"pause": None, "resume": None},
                    "instances": [
                        {
                            "name": f"worker-{number}",
                            "url": f"http://{HOST}:{port}",
                            "state_directory": str(self.directory / f"data-{number}"),
                        }
                        for number, port in enumerate(ports)
                    ],
                },
            },
        }
        (self.directory / "word-counts.yaml").write_text(json.dumps(config | self.sections))

    @contextmanager
    def recovery(self) -> Iterator[RecoveryContext]:
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}
        connections = EnvironmentConnections({"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka)})
        with open_context(load_named("word-counts", self.directory, {}), connections) as recovery:
            yield recovery

    def build(self) -> None:
        """Its input. Words are older than what a broker keeps by itself."""
        with self.recovery() as recovery:
            recovery.cluster.create_topic(self.input, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})

    def feed(self, count: int) -> None:
        """Say so many words."""
        choice, begin = random.Random(len(self.said)), len(self.said)
        self.said += [choice.choice(_VOCABULARY) for _ in range(count)]
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number in range(begin, len(self.said)):
            at = _ZERO + number
            value = json.dumps({"text": self.said[number], "at": at})
            producer.produce(self.input, value, str(number), timestamp=1000 * at)
        assert producer.flush(30) == 0

    def say(self, portions: int) -> None:
        """Say so many portions of words, each when those before are counted."""
        for _ in range(portions):
            self.feed(PORTION)
            self.await_counted()

    def before(self, count: int) -> int:
        """The last millisecond before the word of this number was said."""
        return 1000 * (_ZERO + count) - 1

    def truth(self, count: int | None = None) -> dict[str, dict[str, int]]:
        """What both tables must have after the first ``count`` words, by the text of their keys."""
        words = self.said[:count]
        minutes = Counter((word, (_ZERO + number) // 60 * 60) for number, word in enumerate(words))
        return {
            "counts": {json.dumps(word): times for word, times in Counter(words).items()},
            "minutes": {
                json.dumps([word, [float(begin), begin + 59.9]], separators=(",", ":")): times for (word, begin), times in minutes.items()
            },
        }

    def answers(self) -> dict[str, dict[str, object]]:
        """What the workers say that the tables have."""
        with self.recovery() as recovery:
            return {table: recovery.application.query(table) for table in ("counts", "minutes")}

    def changelogs(self) -> dict[str, dict[str, int]]:
        """What the changelogs stand for."""
        with self.recovery() as recovery:
            found: dict[str, dict[str, int]] = {}
            for table in ("counts", "minutes"):
                partitions = [TopicPartition(f"{self.id}-{table}-changelog", number) for number in range(PARTITIONS)]
                ends = recovery.cluster.high_watermarks(partitions)
                found[table] = {}
                for tp in partitions:
                    with RangeReader(recovery.connection, tp, recovery.cluster.log_starts([tp])[tp], ends[tp]) as reader:
                        rows = [row for batch in reader for row in batch.to_pylist()]
                    found[table] |= {row["key"].decode(): int(row["value"]) for row in rows}
            return found

    def start(self) -> None:
        with self.recovery() as recovery:
            recovery.application.start()
            assert poll(lambda: True if self._running(recovery) else None, seconds=120, interval=0.5), recovery.application.status()

    @staticmethod
    def _running(recovery: RecoveryContext) -> bool:
        return all(status.streams_state == "RUNNING" for status in recovery.application.status())

    def await_counted(self, count: int | None = None) -> None:
        """Wait until the workers have counted the first ``count`` words, or all of them."""
        wanted = self.truth(count)
        assert poll(lambda: True if self.answers() == wanted else None, seconds=120, interval=0.5, what="the words to be counted"), (
            sum(self.truth(count)["counts"].values()),
            {table: sum(map(int, found.values())) for table, found in self.answers().items()},
        )

    def await_some(self, least: int) -> int:
        """Wait until at least so many words are counted, and say how many are."""

        def counted() -> int | None:
            found = sum(self.changelogs()["counts"].values())
            return found if found >= least else None

        found = poll(counted, seconds=120, interval=0.05)
        assert found is not None
        return found

    def await_committed(self) -> None:
        """Wait until the group has offsets on the repartition topic: nothing else says whose it is before the first savepoint."""
        with self.recovery() as recovery:

            def committed() -> bool | None:
                return self.repartition in {tp.topic for tp in recovery.groups.committed_partitions(self.id)} or None

            assert poll(committed, seconds=60, interval=0.2)

    def kill(self) -> None:
        """SIGKILL to every worker."""
        with self.recovery() as recovery:
            for status in recovery.application.status():
                if status.state is not InstanceState.GONE:
                    # "pid 12 on host"
                    os.kill(int(status.detail.split()[1]), signal.SIGKILL)
            gone = poll(lambda: True if all(one.state is InstanceState.GONE for one in recovery.application.status()) else None, seconds=30)
            assert gone, recovery.application.status()

    def lose(self) -> None:
        """Every topic of Faust's, and all local state."""
        with self.recovery() as recovery:
            recovery.cluster.delete_topics([name for name in self.internal if name in recovery.cluster.topic_names()])
        for number in range(self.workers):
            shutil.rmtree(self.directory / f"data-{number}", ignore_errors=True)

    def end(self) -> None:
        """Stop whatever runs, and remove the topics."""
        with self.recovery() as recovery:
            recovery.application.stop(timeout=30)
            recovery.cluster.delete_topics([name for name in (self.input, *self.internal) if name in recovery.cluster.topic_names()])


@contextmanager
def word_counts(bootstrap: str, directory: Path, *, workers: int = 1, **sections: Any) -> Iterator[WordCounts]:
    """The application with its input, nothing of it left at the end."""
    application = WordCounts(bootstrap=bootstrap, directory=directory, workers=workers)
    application.configure(**sections)
    application.build()
    try:
        yield application
    finally:
        application.end()
