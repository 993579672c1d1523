"""An application that is a few topics, a consumer group and a file: everything around it is real, the command line included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.kafka_types import CommittedOffset, TopicPartition
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations import restore as restores
from streams_recovery.operations.context import open_context
from streams_recovery.operations.restore.strategies import FromSavepoint
from streams_recovery.segments.schema import RowDigest
from tests.support.applications import fleet
from tests.support.kafka.records import connect, write
from tests.support.project import PROJECT

# That a command may take at most.
COMMAND_SECONDS = 450
CONFIG = """
version: 1
name: {name}
application: {{id: {id}, guarantee: exactly_once_v2}}
source: {{timeout_seconds: {timeout}}}
topics: {{inputs: [{id}.in]}}
storage: {{backend: filesystem, path: {path}}}
backup: {{survive_cluster_loss: false, consistency: {{mode: stop}}}}
restore: {restore}
spark: {{always: {always}}}
runs:
  kind: command
  command:
    status: [{python}, -I, -S, {fleet}, {state}, status]
    stop: [{python}, -I, -S, {fleet}, {state}, stop]
    start: [{python}, -I, -S, {fleet}, {state}, start]
    wipe: [{python}, -I, -S, {fleet}, {state}, wipe]
"""


def small_request():
    """The newest savepoint, into topics that are not there."""
    return FromSavepoint(reason="test")


@dataclass(kw_only=True)
class SmallApp:
    """One application on a broker. ``rows`` of each partition of its changelog, an update of one of ``rows // 10`` keys each."""

    bootstrap: str
    directory: Path
    partitions: int
    rows: int
    replication: int = 1
    id: str = field(default_factory=lambda: f"small{uuid.uuid4().hex[:8]}")

    @property
    def changelog(self):
        return f"{self.id}-totals-changelog"

    @property
    def logs(self):
        return [TopicPartition(self.changelog, number) for number in range(self.partitions)]

    @property
    def variables(self):
        return {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "STREAMS_RECOVERY_CONFIG_DIR": str(self.directory),
        }

    def configure(self, name, timeout=20, *, always=False, **restore):
        """A configuration of this application, with these settings of ``restore``; calls to the cluster have ``timeout`` seconds. Spark does ``always`` all."""
        (self.directory / "repository").mkdir(exist_ok=True)
        text = CONFIG.format(
            name=name,
            id=self.id,
            path=self.directory / "repository",
            restore=json.dumps(restore),
            timeout=timeout,
            always=json.dumps(always),
            python=sys.executable,
            fleet=fleet.__file__,
            state=self.directory / "state",
        )
        (self.directory / f"{name}.yaml").write_text(text)

    def recovery(self, name="small"):
        """A context manager."""
        return open_context(load_named(name, self.directory, {}), EnvironmentConnections(self.variables))

    def build(self):
        """Topics, records, offsets; the application is stopped."""
        connection = connect(self.bootstrap)
        with self.recovery() as recovery:
            recovery.cluster.create_topic(f"{self.id}.in", partitions=1, replication_factor=self.replication, config={"retention.ms": "-1"})
            config = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1)}
            recovery.cluster.create_topic(self.changelog, partitions=self.partitions, replication_factor=self.replication, config=config)
            keys = max(1, self.rows // 10)
            for tp in self.logs:
                values = ((number, b"k%d" % (number % keys), b"%d " % number + os.urandom(90)) for number in range(self.rows))
                write(connection, tp, [(1_700_000_000_000 + at, key, value, [("n", b"%d" % at)]) for at, key, value in values])
            write(connection, TopicPartition(f"{self.id}.in", 0), [(1_700_000_000_000, b"k", b"v", None)] * 10)
            self.commit(recovery)

    def commit(self, recovery):
        committed = CommittedOffset(offset=10, metadata="AgAAAYvP4/gA", leader_epoch=None)
        recovery.groups.set_offsets(self.id, {TopicPartition(f"{self.id}.in", 0): committed})

    def committed(self):
        """What the group has committed on the input."""
        tp = TopicPartition(f"{self.id}.in", 0)
        with self.recovery() as recovery:
            found = recovery.groups.committed(self.id, [tp])[tp]
        return None if found is None else (found.offset, found.metadata)

    def contents(self):
        """Of every partition of the changelog: log start, log end, rows, digest of all rows in order."""
        connection = connect(self.bootstrap)
        with self.recovery() as recovery:
            starts, ends = recovery.cluster.log_starts(self.logs), recovery.cluster.high_watermarks(self.logs)
        found = {}
        for tp in self.logs:
            digest = RowDigest()
            with RangeReader(connection, tp, starts[tp], ends[tp]) as reader:
                for batch in reader:
                    digest.update(batch)
            found[tp.partition] = (starts[tp], ends[tp], digest.rows, digest.hexdigest())
        return found

    def loaded(self):
        """Records in the changelog by its ends, 0 while there is none."""
        with self.recovery() as recovery:
            if self.changelog not in recovery.cluster.topic_names():
                return 0
            return sum(recovery.cluster.high_watermarks(self.logs).values())

    def lose(self):
        """The changelog and the group are gone."""
        with self.recovery() as recovery:
            recovery.cluster.delete_topics([self.changelog])
            recovery.groups.delete(self.id)
        (self.directory / "state").unlink(missing_ok=True)

    def plan_hash(self, name="small"):
        with self.recovery(name) as recovery:
            return restores.plan(recovery, small_request()).hash

    def start(self, *arguments, log):
        """The command line as a process of its own, its output in a file."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]), **self.variables}
        with (self.directory / log).open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "streams_recovery", *arguments],
                env=environment,
                cwd=self.directory,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )

    def run(self, *arguments, log="cli.log"):
        """The same, to its end; what it printed when it failed."""
        code = self.start(*arguments, log=log).wait(COMMAND_SECONDS)
        return code, (self.directory / log).read_text()[-2000:]

    def restore(self, name="small", log="cli.log"):
        """A restore under way, as a process."""
        return self.start("restore", name, "--reason", "test", "--approve", self.plan_hash(name), log=log)

    def resume(self, name="small", *options, log="cli.log"):
        """The newest restore, resumed as it was approved, to its end; see ``run``."""
        with self.recovery(name) as recovery:
            approved = restores.plan_left(recovery, self.newest_restore()).hash
        return self.run("resume", name, "--approve", approved, *options, log=log)

    def newest_restore(self):
        """Id of the newest restore, as its journal has it."""
        return max(path.name for path in (self.directory / "repository" / self.id / "restores").iterdir())
