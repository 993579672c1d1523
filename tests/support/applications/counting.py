"""An application that counts, played by a program, and what must be true of it after whatever a DAG has done."""

from __future__ import annotations

import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.cli.runner import Runner
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.manifest import Manifest
from streams_recovery.core.repository.mirror import Where
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.run_artifact import ArtifactRef
from streams_recovery.engine.submitter import SparkJob, Submitter
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.operations.second_place import open_at
from tests.support.applications.pair import Here
from tests.support.applications.small import asked

PROGRAM = Path(__file__).with_name("counter.py")
DEPLOYER = Path(__file__).with_name("deployer.py")
# The time of the first record of an input; the others follow in steps of a second.
ZERO = 1_790_000_000_000


@dataclass(kw_only=True)
class Counting:
    """One application on a broker, by its configuration ``name`` in ``directory``."""

    bootstrap: str
    directory: Path
    id: str = field(default_factory=lambda: f"counting{uuid.uuid4().hex[:8]}")
    name: str = "counting"
    sections: dict[str, Any] = field(default_factory=dict)

    @property
    def input(self) -> TopicPartition:
        return TopicPartition(f"{self.id}.in", 0)

    @property
    def output(self) -> TopicPartition:
        return TopicPartition(f"{self.id}.out", 0)

    @property
    def changelog(self) -> TopicPartition:
        return TopicPartition(f"{self.id}-totals-changelog", 0)

    @property
    def dags(self) -> Path:
        """Where Airflow finds DAG files."""
        return self.directory / "dags"

    @property
    def variables(self) -> dict[str, str]:
        """What Airflow and its tasks find it by."""
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}
        bundle = {
            "name": "dags-folder",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(self.dags)},
        }
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
            "STREAMS_RECOVERY_CONFIG_DIR": str(self.directory),
            # Each run of a DAG parses all files there are, so there are only those that a test runs.
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        }

    def programs(self, place: str, *, group: str | None = None, source: str | None = None, output: str | None = None) -> dict[str, Any]:
        """How the application, or one beside it, is run."""
        stream = [self.bootstrap, group or self.id, source or self.input.topic]
        verbs = {
            verb: [sys.executable, str(PROGRAM), str(self.directory / place), verb, *stream] for verb in ("status", "start", "stop", "wipe")
        }
        return {**verbs, "environment": {"OUT": output or self.output.topic}}

    def configure(self, **sections: Any) -> None:
        """Write the configuration, with these sections laid over those it has."""
        self.sections |= sections
        config = {
            "version": 1,
            "name": self.name,
            "application": {"id": self.id, "guarantee": "exactly_once_v2"},
            "topics": {"inputs": [self.input.topic], "outputs": [self.output.topic]},
            "stores": {"totals": {"kind": "key-value"}},
            "storage": {"backend": "filesystem", "path": str(self.directory / "repository")},
            "backup": {"survive_cluster_loss": False, "consistency": {"mode": "stop"}},
            "run": {"schedule": "none"},
            "runs": {"kind": "command", "command": self.programs("started")},
        }
        (self.directory / f"{self.name}.yaml").write_text(json.dumps(config | self.sections))

    def with_second_place(self) -> Path:
        """Give its repository a second place. Returns that directory."""
        second = self.directory / "second"
        first = {"backend": "filesystem", "path": str(self.directory / "repository")}
        self.configure(storage={**first, "mirror": {"backend": "filesystem", "path": str(second)}})
        return second

    def deploys(self, version: str, **more: Any) -> None:
        """Let an upgrade in place deploy this version, watch it for two seconds, and take it back to the version ``old``."""
        command, back = ([sys.executable, str(DEPLOYER), str(self.directory), name] for name in (version, "old"))
        section = {"command": command, "roll_back": back, "watch": "PT2S", **more}
        self.configure(deploy=section, restore={"catch_up_timeout_seconds": 3})

    @property
    def deployments(self) -> list[str]:
        """Which versions were deployed, and whether the application ran then."""
        log = self.directory / "deployments"
        return log.read_text().splitlines() if log.exists() else []

    @contextmanager
    def recovery(self, name: str | None = None, place: Where | None = None) -> Iterator[RecoveryContext]:
        config = load_named(name or self.name, self.directory, {})
        with open_at(config, EnvironmentConnections(self.variables), place, applications=dict) as recovery:
            yield recovery

    def build(self) -> None:
        """Its input and its output."""
        with self.recovery() as recovery:
            for tp in (self.input, self.output):
                recovery.cluster.create_topic(tp.topic, partitions=1, replication_factor=1, config={"retention.ms": "-1"})

    def feed(self, keys: str) -> None:
        """One record for each letter."""
        begin = self.end(self.input)
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for at, key in enumerate(keys, start=begin):
            producer.produce(self.input.topic, b"%d" % at, key.encode(), 0, timestamp=ZERO + 1000 * at)
        assert producer.flush(30) == 0

    def start(self) -> None:
        """As somebody else would: it counts what is there."""
        with self.recovery() as recovery:
            recovery.application.start()

    def stop(self) -> None:
        with self.recovery() as recovery:
            recovery.application.stop(timeout=30)

    def worked(self, keys: str) -> None:
        """With these records fed and counted, and down again."""
        self.feed(keys)
        self.start()
        self.stop()

    @property
    def running(self) -> bool:
        return (self.directory / "started").exists()

    def lose(self) -> None:
        """Changelog and group are gone."""
        with self.recovery() as recovery:
            recovery.cluster.delete_topics([self.changelog.topic])
            recovery.groups.delete(self.id)

    def end(self, tp: TopicPartition) -> int:
        with self.recovery() as recovery:
            return recovery.cluster.high_watermarks([tp])[tp]

    def committed(self, group: str | None = None, tp: TopicPartition | None = None) -> int | None:
        tp = tp or self.input
        with self.recovery() as recovery:
            found = recovery.groups.committed(group or self.id, [tp])[tp]
        return None if found is None else found.offset

    def rows(self, tp: TopicPartition) -> list[tuple[str, str]]:
        """Key and value of every record."""
        with (
            self.recovery() as recovery,
            RangeReader(recovery.connection, tp, recovery.cluster.log_starts([tp])[tp], self.end(tp)) as reader,
        ):
            return [(row["key"].decode(), row["value"].decode()) for batch in reader for row in batch.to_pylist()]

    def state(self, tp: TopicPartition | None = None) -> dict[str, int]:
        """What the changelog stands for."""
        return {key: int(value) for key, value in self.rows(tp or self.changelog)}

    def truth(self, upto: int | None = None) -> dict[str, int]:
        """What it must stand for, by the input below what is committed."""
        upto = self.committed() if upto is None else upto
        return dict(Counter(key for key, _ in self.rows(self.input)[:upto]))

    def topics(self) -> set[str]:
        """Everything on the cluster that has to do with it."""
        with self.recovery() as recovery:
            return {name for name in recovery.cluster.topic_names() if self.id in name}

    def free(self) -> bool:
        """Whether nobody holds its lock."""
        with self.recovery() as recovery:
            return recovery.lock.holder() is None

    def savepoint(self, submitter: Submitter) -> str:
        """A savepoint, taken without Airflow. Its id."""
        with self.recovery() as recovery:
            request = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
            return runs.backup(Runner(recovery=recovery, submitter=submitter, say=print), request).savepoint_id

    def savepoints(self) -> Sequence[str]:
        with self.recovery() as recovery:
            return recovery.savepoints.ids()

    def newest(self) -> Manifest:
        """The newest savepoint."""
        with self.recovery() as recovery:
            found = recovery.savepoints.latest()
        assert found is not None
        return found

    def spoil(self) -> None:
        """A record in the changelog that nobody has counted."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        producer.produce(self.changelog.topic, b"99", b"nobody", 0)
        assert producer.flush(30) == 0

    def tidy(self) -> None:
        with self.recovery() as recovery:
            recovery.cluster.delete_topics(sorted(self.topics()))


@dataclass(frozen=True)
class DoneHere:
    """See Submitter. Jobs of an application that counts, done here, without Spark."""

    app: Counting

    def submit(self, job: SparkJob) -> ArtifactRef:
        """Do it."""
        with self.app.recovery() as recovery:
            return Here(recovery).submit(job)


def savepoint_here(app: Counting, *, later: int = 0) -> str:
    """A savepoint, by a clock that is so many milliseconds fast. Its id."""
    with app.recovery() as recovery:
        clock = recovery.clock
        request = SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)
        runner = Runner(recovery=replace(recovery, clock=lambda: clock() + later), submitter=DoneHere(app), say=print)
        return runs.backup(runner, request).savepoint_id


def restore_here(app: Counting, saved: str, *, replace: bool = False) -> RestoreReport:
    """A whole restore, with the application at work afterwards."""
    with app.recovery() as recovery:
        requester = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
        runner = Runner(recovery=recovery, submitter=DoneHere(app), say=print)
        return runs.restore_in_place(runner, asked(recovery, savepoint=saved, replace=replace), requester, approve=lambda _: True)
