"""The scene that every strategy is played on: a running application, a running Airflow, and a generator that knows the truth."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from embedded.airflow_client import AirflowClient, OnChange
from embedded.applications import Applications
from embedded.demo.checks import differences, wait_counted
from embedded.demo.telling import Teller
from embedded.processes import Processes
from embedded.stack import APPLICATION, Stack
from examples.order_processing.generator import Generator
from examples.order_processing.truth import truth
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.errors import ApplicationNotReady, Refused
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.waiting import poll
from streams_recovery.operations.context import RecoveryContext, open_context

BACKUP = f"streams_backup_{APPLICATION}"
_RUN_SECONDS = 600.0
_TOLD = ("running", "awaiting_input", "success", "failed", "upstream_failed", "up_for_retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that is on stage. ``orders`` is how many the main story processes, what comes in during its savepoints aside; others have a few thousand."""

    stack: Stack
    recovery: RecoveryContext
    airflow: AirflowClient
    generator: Generator
    teller: Teller
    orders: int
    processes: Processes

    def run(self, dag_id: str, conf: dict[str, Any], *, heard: OnChange = lambda *_: None) -> str:
        """A run through Airflow to its end, approved when it asks. ``heard`` is told of every task's new state. Raises ``ApplicationNotReady`` unless
        it succeeded.
        """
        run_id = self.airflow.trigger(dag_id, {"reason": "demonstration", **conf})
        self.await_run(dag_id, run_id, heard=heard)
        return run_id

    def await_run(self, dag_id: str, run_id: str, *, heard: OnChange = lambda *_: None) -> None:
        """A run that was started already, to its end. Raises as ``run`` does."""
        self.teller.say(f"Airflow run [bold]{dag_id}[/bold] {run_id}")

        def on_change(task: str, state: str) -> None:
            heard(task, state)
            if state in _TOLD:
                self.teller.say(f"    {task}: {state}")

        def approve(body: str) -> bool:
            self.teller.say(f"    approving: {body.splitlines()[2] if body.count(chr(10)) > 1 else body[:120]}")
            return True

        state = self.airflow.wait(dag_id, run_id, seconds=_RUN_SECONDS, on_change=on_change, approve=approve)
        if state != "success":
            failures = self.airflow.failures(dag_id, run_id)
            raise ApplicationNotReady(f"{dag_id} ended as {state}:\n{failures}", next_step="see the task logs above")

    def savepoint(self, *, heard: OnChange = lambda *_: None) -> dict[str, Any]:
        """Take one through the DAG and return the summaries of its cut and of publish. ``heard`` is as for ``run``."""
        run_id = self.run(BACKUP, {}, heard=heard)
        cut: dict[str, Any] = self.airflow.result(BACKUP, run_id, "capture_cut")
        found: dict[str, Any] = self.airflow.result(BACKUP, run_id, "publish")
        new, tails = found["new_records"], found["tail_records"]
        self.teller.say(f"savepoint {found['savepoint_id']}: {found['consistency']}, {new:,} new records, {tails:,} of them unread tails")
        named = f", read by the names of transactions ({cut['left_out']:,} records of others left out)" if "left_out" in cut else ""
        self.teller.say(f"    application held {cut['held_seconds']:.1f} s{named}")
        return cut | found

    def feed(self, count: int) -> None:
        """Feed and wait until all of it is counted."""
        self.generator.feed(count, progress=lambda done: self.teller.say(f"    {done:,} of {count:,} orders"))
        self.await_counted()

    def await_counted(self) -> None:
        """Wait until every order that Kafka acknowledged is counted."""
        wait_counted(self.recovery, self.generator.acknowledged, seconds=300)

    def await_running(self) -> None:
        """Wait until every instance is RUNNING."""

        def running() -> bool | None:
            return True if all(status.streams_state == "RUNNING" for status in self.recovery.application.status()) else None

        if poll(running, seconds=120, interval=0.5) is None:
            raise ApplicationNotReady(
                "the application did not come up", next_step="see its logs", states=str(self.recovery.application.status())
            )

    def several(self) -> Applications:
        """The stack, where it has more than one application. Raises ``Refused`` otherwise."""
        if not isinstance(self.stack, Applications):
            raise Refused("this needs more than one application", next_step="play it on a stack that has them")
        return self.stack

    def output_ends(self) -> dict[str, int]:
        """The end offsets of the application's outputs, by partition."""
        topics = self.recovery.cluster.describe_topics(self.recovery.config.topics.outputs)
        partitions = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
        return {str(tp): end for tp, end in self.recovery.cluster.high_watermarks(partitions).items()}

    def wrong(self, *, settle_seconds: float = 60.0) -> dict[str, int]:
        """Keys that differ from the truth of all orders fed so far, by store. Joins get that long to settle."""
        found = differences(self.recovery, truth(self.generator.world, range(self.generator.sent)), settle_seconds=settle_seconds)
        self.teller.say(f"keys that differ from the truth, by store: {found}")
        return found


def opened(stack: Stack) -> AbstractContextManager[RecoveryContext]:
    """The context of the example in this stack."""
    return open_context(stack.config(), EnvironmentConnections({**os.environ, **stack.variables}))


def right(wrong: dict[str, int]) -> bool:
    """Return True if stores were compared and none differs."""
    return bool(wrong) and not any(wrong.values())
