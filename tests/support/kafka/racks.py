"""A cluster of four brokers in three racks, of which the first one has the controller. Three replicas can be placed well or badly there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.broker import BrokerExtras, start_broker
from embedded.ports import HOST, free_ports
from embedded.processes import Processes

RACKS: Final = {1: "a", 2: "a", 3: "b", 4: "c"}
# Whatever has no other replicas of its own outlives one that stops. The first one stays: it has the controller.
_SHARED: Final = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}


@dataclass(frozen=True, kw_only=True)
class Racked:
    """The running cluster. Whoever stops a broker starts it again."""

    directory: Path
    ports: tuple[int, ...]
    controllers: tuple[int, ...]
    processes: tuple[Processes, ...]

    @property
    def bootstrap(self) -> str:
        """The address of the first one."""
        return f"{HOST}:{self.ports[0]}"

    def start(self, node: int) -> None:
        """Start one, on its data, and return when it answers."""
        own = self.directory / f"broker-{node}"
        settings = {"broker.rack": RACKS[node], **_SHARED}
        if node > 1:
            settings |= {
                "process.roles": "broker",
                "node.id": str(node),
                "controller.quorum.voters": f"1@{HOST}:{self.controllers[0]}",
                "listeners": "PLAINTEXT://{host}:{port}",
            }
            self._format(own / "logs", node)
        start_broker(
            self.processes[node - 1],
            own,
            port=self.ports[node - 1],
            controller_port=self.controllers[node - 1],
            extras=BrokerExtras(settings=settings),
        )

    def stop(self, node: int) -> None:
        """Stop one as an administrator does: it gives its leaderships away first."""
        self.processes[node - 1].stop("broker")

    @contextmanager
    def silenced(self, node: int) -> Iterator[None]:
        """One whose host is gone: its connections stay, and nothing answers on them. The others learn of it when its session has ended."""
        pid, _ = self.processes[node - 1].recorded()["broker"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _format(self, logs: Path, node: int) -> None:
        """For the cluster of the first one: the tool would give it an id of its own."""
        if not (logs / "meta.properties").exists():
            logs.mkdir(parents=True)
            first = (self.directory / "broker-1" / "logs" / "meta.properties").read_text().splitlines()
            kept = [line for line in first if line.startswith(("version", "cluster.id"))]
            (logs / "meta.properties").write_text("\n".join([*kept, f"node.id={node}", ""]))


@contextmanager
def racked(directory: Path) -> Iterator[Racked]:
    """The cluster, below ``directory``."""
    count = len(RACKS)
    with ExitStack() as stack:
        own = tuple(stack.enter_context(Processes(directory / f"processes-{node}")) for node in RACKS)
        ports = tuple(free_ports(2 * count))
        cluster = Racked(directory=directory, ports=ports[:count], controllers=ports[count:], processes=own)
        for node in RACKS:
            cluster.start(node)
        yield cluster
