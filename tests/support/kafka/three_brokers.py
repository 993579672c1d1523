"""A cluster of three brokers, each a controller too: leaders and the controller can be lost one at a time, and every record has two other copies."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from kafka import TopicPartition as PurePartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConfigurationError, KafkaError

from embedded.jars import kafka_jars
from embedded.java import SHORT_JOBS, find_java
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll

NODES = (1, 2, 3)
START_SECONDS = 180.0

# Sessions are short, so that a dead broker is noticed in seconds. Leaders stay where a test has put them.
_SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
unclean.leader.election.enable=false
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
controller.quorum.election.backoff.max.ms=500
replica.lag.time.max.ms=5000
log.retention.check.interval.ms=1000
log.cleaner.backoff.ms=1000
log.segment.delete.delay.ms=1000
"""


@dataclass(frozen=True)
class ThreeBrokers:
    """The running cluster. Whoever stops a broker has to start it again."""

    processes: Processes
    directory: Path
    ports: tuple[int, ...]

    @property
    def bootstrap(self) -> str:
        """Addresses of all three."""
        return ",".join(f"{HOST}:{port}" for port in self.ports[:3])

    def format(self) -> None:
        """Write the three configurations and format the three directories, for one new cluster."""
        voters = ",".join(f"{node}@{HOST}:{self.ports[node + 2]}" for node in NODES)
        # Without its first bit an id never begins with a dash, which the tool would take for an option.
        first, *rest = uuid.uuid4().bytes
        cluster = base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
        tools = []
        for node in NODES:
            ports = {"port": self.ports[node - 1], "controller": self.ports[node + 2]}
            self._file(node).write_text(_SETTINGS.format(node=node, voters=voters, host=HOST, logs=self.directory / _name(node), **ports))
            command = [*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._file(node))]
            tools.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        assert [tool.wait(START_SECONDS) for tool in tools] == [0, 0, 0]

    def start(self, node: int) -> None:
        """Start one, on its data, and do not wait for it."""
        self.processes.start(_name(node), [*_java(), "kafka.Kafka", str(self._file(node))])

    def kill(self, node: int) -> None:
        """End one as a power failure does."""
        os.kill(self.processes.recorded()[_name(node)][0], signal.SIGKILL)
        self.processes.stop(_name(node))

    def stop(self, node: int) -> None:
        """Stop one as an administrator does: it gives its leaderships away first."""
        self.processes.stop(_name(node))

    def running(self, node: int) -> bool:
        """Whether it was started and not stopped."""
        return _name(node) in self.processes.recorded()

    def controller(self) -> int:
        """The node that leads the cluster's own log, waited for."""

        def look() -> int | None:
            quorum = self._asked(lambda admin: admin.describe_metadata_quorum())
            leader = None if quorum is None else quorum["topics"][0]["partitions"][0]["leader_id"]
            return leader if leader in NODES and self.running(leader) else None

        return poll(look, seconds=START_SECONDS) or _never("there is no controller")

    def leader(self, tp: TopicPartition) -> int:
        """The broker that leads a partition, waited for."""

        def look() -> int | None:
            for topic in self._asked(lambda admin: admin.describe_topics([tp.topic])) or []:
                for partition in topic["partitions"]:
                    if partition["partition_index"] == tp.partition and partition["leader_id"] in NODES:
                        return int(partition["leader_id"])
            return None

        return poll(look, seconds=START_SECONDS) or _never(f"{tp} has no leader")

    def move(self, tp: TopicPartition) -> int:
        """Give a partition another leader, with all brokers up. Returns the new one."""
        before = self.leader(tp)
        order = [*(node for node in NODES if node != before), before]
        pure = PurePartition(*tp)
        with closing(self._admin()) as admin:
            admin.alter_partition_reassignments({pure: order})
            admin.elect_leaders(0, {tp.topic: [tp.partition]})
        assert poll(lambda: self.leader(tp) == order[0] or None, seconds=START_SECONDS)
        return order[0]

    def whole(self) -> None:
        """Start whoever is down and wait until every replica has caught up: only then does the next loss cost nothing."""
        for node in NODES:
            if not self.running(node):
                self.start(node)
        if not poll(lambda: self._in_sync() or None, seconds=START_SECONDS):
            _never("the replicas did not catch up")

    def _in_sync(self) -> bool:
        # Each is asked itself: what the others say of a broker that has just come back may be from before it went.
        for node in NODES:
            self.processes.check(_name(node))
            topics = self._asked(lambda admin: admin.describe_topics(), node)
            if topics is None or any(len(one["isr_nodes"]) < len(one["replica_nodes"]) for topic in topics for one in topic["partitions"]):
                return False
        return True

    def _asked(self, question, *nodes):
        # While brokers come and go any answer may be missing, and is asked for again.
        try:
            with closing(self._admin(*nodes)) as admin:
                return question(admin)
        except KafkaConfigurationError:
            raise
        except KafkaError:
            return None

    def _admin(self, *nodes: int) -> KafkaAdminClient:
        addresses = [f"{HOST}:{self.ports[node - 1]}" for node in nodes or NODES]
        return KafkaAdminClient(bootstrap_servers=addresses, request_timeout_ms=5_000, bootstrap_timeout_ms=5_000)

    def _file(self, node: int) -> Path:
        return self.directory / f"{_name(node)}.properties"


def _name(node: int) -> str:
    return f"broker-{node}"


def _java() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(find_java()), "-Xmx256m", *SHORT_JOBS.split(), quiet, "-cp", f"{kafka_jars()}/*"]


def _never(what: str) -> int:
    raise AssertionError(f"{what} after {START_SECONDS:.0f} s")


class Bouncer(threading.Thread):
    """Takes brokers away one after the other, the controller first, each a moment after the last is back and in sync, until told to end."""

    def __init__(self, three: ThreeBrokers, how: Literal["kill", "stop"]) -> None:
        super().__init__()
        self.three, self.take_away, self.over = three, getattr(three, how), threading.Event()
        self.gone: list[int] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.over.wait(1):
                node = self.three.controller()
                self.take_away(node)
                self.gone.append(node)
                self.three.whole()
        except BaseException as error:  # noqa: BLE001 - told by whoever waits for the end
            self.error = error

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()
        assert self.error is None, self.error


@contextmanager
def three_brokers(directory: Path) -> Iterator[ThreeBrokers]:
    """The cluster, whole, below ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    with Processes(directory / "processes") as processes:
        cluster = ThreeBrokers(processes, directory, tuple(free_ports(6)))
        cluster.format()
        cluster.whole()
        yield cluster
