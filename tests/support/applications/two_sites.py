"""The application that counts, at two sites: each is a real broker, and what it has counted is asked where it is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from embedded.broker import start_broker
from embedded.ports import free_ports
from embedded.processes import Processes
from streams_recovery.cli import runs
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.cli.runner import Runner
from streams_recovery.config.loader import load_named
from streams_recovery.core.repository.sites import PRIMARY
from streams_recovery.core.restore.report import RestoreReport
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.engine.submitter import Submitter
from streams_recovery.kafka.reader import RangeReader
from streams_recovery.operations.context import RecoveryContext, open_context
from streams_recovery.operations.restore.strategies import Failover
from tests.support.applications.counting import ZERO, Counting


@dataclass(kw_only=True)
class AtTwoSites(Counting):
    """The application that counts, at a cluster of its own and at ``dr``. What it is asked goes to the site that it belongs to."""

    home: str
    dr: str
    restart: Callable[[], str] = field(repr=False)
    end_broker: Callable[[], None] = field(repr=False)
    site: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        clusters = {"AIRFLOW_CONN_KAFKA_DEFAULT": self.home, "AIRFLOW_CONN_KAFKA_DR": self.dr}
        kafka = {name: {"conn_type": "kafka", "extra": {"bootstrap.servers": address}} for name, address in clusters.items()}
        return super().variables | {name: json.dumps(connection) for name, connection in kafka.items()}

    def configure(self, **sections: Any) -> None:
        there = Counting(bootstrap=self.dr, directory=self.directory, id=self.id).programs("started-dr")
        site = {"connection": "kafka_dr", "runs": {"kind": "command", "command": there}}
        backup = {"survive_cluster_loss": True, "consistency": {"mode": "stop"}}
        super().configure(**{"source": {"timeout_seconds": 2}, "sites": {"dr": site}, "backup": backup, **sections})

    @contextmanager
    def recovery(self, name: str | None = None) -> Iterator[RecoveryContext]:
        config = load_named(name or self.name, self.directory, {})
        with open_context(config, EnvironmentConnections(self.variables), site=self.site, patience=2) as recovery:
            yield recovery

    def at(self, site: str) -> AtTwoSites:
        """The same, asked at one site."""
        return replace(self, site=site, bootstrap=self.dr if site == "dr" else self.home)

    def feed(self, keys: str, *, at: Sequence[int] | None = None, values: Sequence[str] | None = None) -> None:
        """One record for each letter, with timestamps and values of records elsewhere where they are given."""
        if at is None:
            super().feed(keys)
            return
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for number, (key, stamp) in enumerate(zip(keys, at, strict=True)):
            value = b"%d" % ((stamp - ZERO) // 1000) if values is None else values[number].encode()
            producer.produce(self.input.topic, value, key.encode(), 0, timestamp=stamp)
        assert producer.flush(30) == 0

    def stamps(self) -> list[int]:
        """The timestamp of every record of the input."""
        end = self.end(self.input)
        with self.recovery() as recovery, RangeReader(recovery.connection, self.input, 0, end) as reader:
            return [row["timestamp"] for batch in reader for row in batch.to_pylist()]

    def runs_at(self) -> list[str]:
        return [site for site, mark in ((PRIMARY, "started"), ("dr", "started-dr")) if (self.directory / mark).exists()]

    def move(self, to: str, submitter: Submitter, *, lost: str = "", replaced: bool = False) -> RestoreReport:
        safeguards = Safeguards(replace=replaced, confirm=self.id)
        request = Failover(reason="test", to=to, lost=lost, safeguards=safeguards)
        with self.at(to).recovery() as recovery:
            runner = Runner(recovery=recovery, submitter=submitter, say=print)
            requester = runs.Requester(run_id=f"test-{uuid.uuid4().hex}", requested_by="me")
            return runs.restore_in_place(runner, request, requester, approve=lambda _: True)


@contextmanager
def two_brokers(directory: Path, dr: str) -> Iterator[AtTwoSites]:
    """The application with its input at a broker of its own, and with nothing at ``dr``."""
    with Processes(directory / "processes") as processes:
        port, controller = free_ports(2)

        def start() -> str:
            return start_broker(processes, directory / "broker", port=port, controller_port=controller)

        home = start()
        found = AtTwoSites(bootstrap=home, home=home, dr=dr, directory=directory, restart=start, end_broker=processes.stop_all)
        found.configure()
        found.build()
        yield found
        found.at("dr").tidy()


def belongs_to(sites: AtTwoSites) -> tuple[str, bool, tuple[str, ...]]:
    """The site, whether it has arrived there, and the sites that are fenced."""
    with sites.recovery() as recovery:
        entry = recovery.sites.entry()
    assert entry is not None
    return entry.site, entry.arrived, tuple(fence.site for fence in entry.fences)
