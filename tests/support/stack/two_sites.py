"""The example application on two clusters of one machine: a stack whose configuration has a second site, and a stage that stands at both."""

from __future__ import annotations

import copy
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from embedded.broker import start_broker
from embedded.ports import HOST, free_ports
from embedded.processes import Processes
from embedded.stack import APPLICATION, Plain, Stack
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.operations.context import RecoveryContext, open_context
from tests.support.kafka.records_below import records_below
from tests.support.stack.commands import Command
from tests.support.stack.stage import Stage, stage

THERE: Final = "dr"
# Key, value and time of every record of a topic, by partition.
Content = dict[int, list[tuple[bytes | None, bytes | None, int]]]
# Where the records of the processes at home are. Whoever is told another place does not see these processes, like somebody at another machine.
_RECORDS: Final = "RECORDS_AT_HOME"
# By default a producer without a cluster gives up after a minute, and its instance ends (TransactionAbortableException): none would live on.
_PATIENCE_MS: Final = 600_000


@dataclass(frozen=True, kw_only=True)
class TwoSites(Stack):
    """A stack with a second broker, and the same application configured there with instances of its own. ``there`` are the ports of broker, controller and both
    instances.
    """

    there: Sequence[int] = field(default_factory=lambda: free_ports(4))

    @property
    def bootstrap_there(self) -> str:
        """The address of the second broker."""
        return f"{HOST}:{self.there[0]}"

    @property
    def variables(self) -> dict[str, str]:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap_there}}
        return {**super().variables, "AIRFLOW_CONN_KAFKA_DR": json.dumps(connection), "STREAMS_RECOVERY_ARCHIVE": "true"}

    def start_broker_there(self, processes: Processes) -> None:
        """Start the second broker."""
        start_broker(processes, self.directory / THERE / "broker", port=self.there[0], controller_port=self.there[1])

    def stop_application(self) -> list[str]:
        """Stop the instances of both sites."""
        config = self.config().at(THERE)
        application = open_application(config.runs, config.application.id)
        stopped = [status.name for status in application.status() if status.state is not InstanceState.GONE]
        application.stop(timeout=30)
        return [*super().stop_application(), *stopped]

    def _configurations(self, first: Plain) -> dict[str, Plain]:
        process = first["runs"]["process"]
        process["directory"] = f"${{{_RECORDS}:-{self.directory / 'application'}}}"
        patient = self.directory / "patient.properties"
        patient.parent.mkdir(parents=True, exist_ok=True)
        patient.write_text(f"max.block.ms={_PATIENCE_MS}\ndelivery.timeout.ms={_PATIENCE_MS}\n")
        process["environment"]["KAFKA_CLIENT_PROPERTIES"] = str(patient)
        there = copy.deepcopy(process)
        there["directory"] = str(self.directory / THERE / "application")
        there["environment"]["BOOTSTRAP_SERVERS"] = self.bootstrap_there
        there["instances"] = [
            {
                "name": f"order-processor-{THERE}-{number}",
                "url": f"http://{HOST}:{port}",
                "state_directory": str(self.directory / THERE / f"{number}"),
            }
            for number, port in enumerate(self.there[2:], 1)
        ]
        # Of an application of at least once no cut is exact unless it is held.
        first["archive"] = {**first.get("archive", {}), "state": self.guarantee == "exactly_once_v2"}
        first["sites"] = {THERE: {"connection": "kafka_dr", "runs": {"kind": "process", "process": there}}}
        return {APPLICATION: first}


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTwoSites:
    """A stage at home, and the context of the same application at the other site. ``brokers`` has the process of the broker there."""

    home: Stage
    there: Stage
    brokers: Processes
    far: Path

    def command(self, *arguments: str, from_there: bool = False) -> Command:
        """A command that is run beside both sites, or, ``from_there``, at a machine from which the instances at home are not seen."""
        return Command(self.home, *arguments, **({_RECORDS: str(self.far)} if from_there else {}))

    def kill_broker_at_home(self) -> None:
        """As a loss of power does."""
        pid, _ = self.home.processes.recorded()["broker"]
        os.kill(pid, signal.SIGKILL)
        self.home.processes.stop("broker")


@contextmanager
def two_sites(directory: Path, *, guarantee: str, orders: int) -> Iterator[AtTwoSites]:
    """Both clusters, with the application at home. The other cluster is empty."""
    with ExitStack() as opened:
        home = opened.enter_context(stage(directory, guarantee=guarantee, orders=orders, kind=TwoSites))
        stack = home.stack
        assert isinstance(stack, TwoSites)
        brokers = opened.enter_context(Processes(directory / THERE / "processes"))
        stack.start_broker_there(brokers)
        connections = EnvironmentConnections({**os.environ, **stack.variables})
        recovery = opened.enter_context(open_context(stack.config(), connections, site=THERE))
        opened.callback(recovery.application.stop, timeout=30)
        there = Stage(stack=stack, processes=brokers, recovery=recovery, generator=home.generator)
        yield AtTwoSites(home=home, there=there, brokers=brokers, far=directory / "another-machine")


def content(recovery: RecoveryContext, topic: str) -> Content:
    """All of a topic, read with a consumer of the tests' own."""
    count = recovery.cluster.describe_topics([topic])[topic].partitions
    ends = recovery.cluster.high_watermarks([TopicPartition(topic, number) for number in range(count)])
    found: Content = {tp.partition: [] for tp in ends}
    for tp, message in records_below(recovery.connection.bootstrap_servers, ends):
        found[tp.partition].append((message.key(), message.value(), message.timestamp()[1]))
    return found


def where(recovery: RecoveryContext) -> tuple[str, bool, tuple[str, ...]]:
    """The site that the application belongs to, whether it has arrived there, and the sites that are fenced."""
    entry = recovery.sites.entry()
    return (PRIMARY, True, ()) if entry is None else (entry.site, entry.arrived, tuple(fence.site for fence in entry.fences))
