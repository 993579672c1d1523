"""A small stage for system tests: the embedded stack with two instances, some orders, and Airflow when a test needs it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from embedded.demo.checks import wait_counted
from embedded.processes import Processes
from embedded.stack import Ports, Stack
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.names import internal_role
from streams_recovery.core.waiting import poll
from streams_recovery.operations import topic_holds
from streams_recovery.operations.context import RecoveryContext, open_context

ORDERS = 4_000
# A broker refuses timestamps more than an hour ahead: a test may feed 2 million orders of 5 ms each before that.
_PAST_MS = 7_200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What is on it."""

    stack: Stack
    processes: Processes
    recovery: RecoveryContext
    generator: Generator

    def instances(self) -> dict[str, str]:
        """Every instance's process and Kafka Streams state: equal before and after means that nobody touched them."""
        return {status.name: f"{status.detail} {status.streams_state}" for status in self.recovery.application.status()}

    def await_running(self) -> dict[str, str]:
        """Wait until every instance is RUNNING."""

        def running() -> bool | None:
            statuses = self.recovery.application.status()
            return True if statuses and all(status.streams_state == "RUNNING" for status in statuses) else None

        assert poll(running, seconds=180, interval=0.5), self.instances()
        return self.instances()

    def held(self) -> list[str]:
        """The lock's holder and the topics under a hold: empty when a run has tidied up."""
        holder = self.recovery.lock.holder()
        topics = sorted({item.hold.topic for item in topic_holds.outstanding(self.recovery)})
        return ([f"lock: {holder.owner}"] if holder else []) + topics

    @contextmanager
    def as_user(self, extra: Mapping[str, object]) -> Iterator[RecoveryContext]:
        """The application as this user of the cluster has it."""
        connection = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": extra})}
        with open_context(self.stack.config(), EnvironmentConnections({**os.environ, **self.stack.variables, **connection})) as recovery:
            yield recovery

    def internal_topics(self) -> list[str]:
        """The application's changelog and repartition topics."""
        return sorted(name for name in self.recovery.cluster.topic_names() if internal_role(name, self.recovery.application_id))


@contextmanager
def stage(
    directory: Path,
    *,
    guarantee: str = "exactly_once_v2",
    orders: int = ORDERS,
    kind: Callable[..., Stack] = Stack,
    start_ms: int | None = None,
    step_ms: int = 5,
) -> Iterator[Stage]:
    """Set the stage in ``directory`` and clear it. Orders begin at ``start_ms``, or else two hours ago."""
    stack = kind(directory=directory, ports=Ports.free(), guarantee=guarantee)
    begin = time.time_ns() // 1_000_000 - _PAST_MS if start_ms is None else start_ms
    world = World(seed=3, customers=300, products=20, start_ms=begin, step_ms=step_ms)
    with (
        Processes(directory / "processes") as processes,
        open_context(stack.config(), EnvironmentConnections({**os.environ, **stack.variables})) as recovery,
    ):
        stack.start_broker(processes)
        create_topics(stack.bootstrap, client_settings=stack.client_settings)
        generator = Generator(stack.bootstrap, world, stack.client_settings)
        generator.feed_reference_data()
        try:
            recovery.application.start()
            found = Stage(stack=stack, processes=processes, recovery=recovery, generator=generator)
            found.await_running()
            generator.feed(orders)
            wait_counted(recovery, orders, seconds=180)
            yield found
        finally:
            recovery.application.stop(timeout=30)
