"""The story from beginning to end."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.airflow import Airflow
from embedded.airflow_client import AirflowClient
from embedded.demo.checks import differences, newest_recovered_ms, wait_counted
from embedded.demo.disaster import destroy
from embedded.demo.telling import Report, Teller
from embedded.ports import free_ports
from embedded.processes import Processes
from embedded.stack import APPLICATION, Ports, Stack
from examples.order_processing.generator import Generator, create_topics
from examples.order_processing.orders import World
from examples.order_processing.truth import truth
from streams_recovery.application.factory import open_application
from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import StoreKind, TopicPartition, TopicRole
from streams_recovery.waiting import poll
from streams_recovery.workbench import Workbench, open_workbench

BACKUP, RESTORE = f"streams_backup_{APPLICATION}", "streams_restore_full"
FEEDS = (90_000, 40_000, 40_000, 30_000)
TRICKLE_RATE = 800.0
_RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Everything that is on stage."""

    bench: Workbench
    airflow: AirflowClient
    generator: Generator
    teller: Teller

    @contextmanager
    def trickle(self) -> Iterator[None]:
        """Orders go on coming in: a savepoint of an idle application would prove little."""
        stop = threading.Event()
        feeder = threading.Thread(target=lambda: self.generator.feed(10**9, rate=TRICKLE_RATE, stop=stop), daemon=True)
        feeder.start()
        try:
            yield
        finally:
            stop.set()
            feeder.join()

    def run(self, dag_id: str, conf: dict[str, Any]) -> str:
        """A run through Airflow to its end, approved when it asks. Raises ``ApplicationNotReady`` unless it succeeded."""
        run_id = self.airflow.trigger(dag_id, conf)
        self.teller.say(f"Airflow run [bold]{dag_id}[/bold] {run_id}")

        def told(task: str, state: str) -> None:
            if state in ("running", "awaiting_input", "success", "failed", "upstream_failed", "up_for_retry"):
                self.teller.say(f"    {task}: {state}")

        def approve(body: str) -> bool:
            self.teller.say(f"    approving: {body.splitlines()[2] if body.count(chr(10)) > 1 else body[:120]}")
            return True

        state = self.airflow.wait(dag_id, run_id, seconds=_RUN_SECONDS, told=told, approve=approve)
        if state != "success":
            failures = self.airflow.failures(dag_id, run_id)
            raise ApplicationNotReady(f"{dag_id} ended as {state}:\n{failures}", next_step="see the task logs above")
        return run_id

    def savepoint(self) -> dict[str, Any]:
        """Take one through the DAG and return publish's summary."""
        run_id = self.run(BACKUP, {"reason": "demonstration"})
        found: dict[str, Any] = self.airflow.result(BACKUP, run_id, "publish")
        new, tails = found["new_records"], found["tail_records"]
        self.teller.say(f"savepoint {found['savepoint_id']}: {found['consistency']}, {new:,} new records, {tails:,} of them unread tails")
        return found

    def feed(self, count: int) -> None:
        """Feed and wait until all of it is counted."""
        self.generator.feed(count, progress=lambda done: self.teller.say(f"    {done:,} of {count:,} orders"))
        wait_counted(self.bench, self.generator.acknowledged, seconds=300)


def play(directory: Path, guarantee: str, teller: Teller) -> Report:
    """Set the stage in ``directory``, play, clean up. Raises what goes wrong; the report tells of checks that did not hold."""
    application_of = Stack(directory=directory, ports=Ports.of(free_ports(7)), guarantee=guarantee)
    with Processes(directory / "processes") as processes:
        # A killed run leaves its instances running: they are known by the directory about to be emptied.
        open_application(application_of.config().runs, application_of.config().application.id).stop(timeout=10)
        for name in ("broker", "airflow", "application", "repository", "state"):
            shutil.rmtree(directory / name, ignore_errors=True)
        with open_workbench(application_of.config(), EnvironmentConnections({**os.environ, **application_of.variables})) as bench:
            try:
                return _acts(application_of, processes, bench, teller)
            finally:
                bench.application.stop(timeout=30)


def _acts(stack: Stack, processes: Processes, bench: Workbench, teller: Teller) -> Report:
    world = World(seed=7, customers=10_000, products=200, start_ms=time.time_ns() // 1_000_000 - 7_200_000, step_ms=25)
    with teller.phase("set_up", "1. Kafka, the application with two instances, Airflow"):
        stack.start_broker(processes)
        create_topics(stack.bootstrap)
        generator = Generator(stack.bootstrap, world)
        generator.feed_reference_data()
        bench.application.start()
        airflow = Airflow(stack, processes)
        client = airflow.start()
        _await_running(bench)
        teller.say(f"Airflow at {airflow.url}")
    scene = Scene(bench=bench, airflow=client, generator=generator, teller=teller)
    with teller.phase("first_savepoint", f"2. {FEEDS[0]:,} orders, then a savepoint while more come in"):
        scene.feed(FEEDS[0])
        with scene.trickle():
            first = scene.savepoint()
    with teller.phase("second_savepoint", f"3. {FEEDS[1]:,} more orders, then an incremental savepoint"):
        scene.feed(FEEDS[1])
        with scene.trickle():
            second = scene.savepoint()
        manifest = bench.savepoints.read(second["savepoint_id"])
        incremental = _incremental(bench, bench.savepoints.read(first["savepoint_id"]), second)
    with teller.phase("disaster", f"4. {FEEDS[2]:,} more orders, then everything is lost"):
        scene.feed(FEEDS[2])
        newest_before, lost_at = generator.newest_acknowledged_ms or 0, time.monotonic()
        teller.say(f"deleted {len(destroy(bench))} internal topics, the consumer group and all local state")
    with teller.phase("restore", "5. The restore DAG: plan, approval, load, verify, offsets, wipe, start"):
        run_id = scene.run(RESTORE, {"application": APPLICATION, "savepoint": second["savepoint_id"], "reason": "demonstration"})
        rto = time.monotonic() - lost_at
        verified = client.result(RESTORE, run_id, "verify_changelogs")
        offsets = client.result(RESTORE, run_id, "reset_consumer_group")
    with teller.phase("recovered", "6. What came back"):
        wait_counted(bench, generator.acknowledged, seconds=300)
        recovered = differences(bench, truth(world, range(generator.sent)))
        rpo = (newest_before - newest_recovered_ms(bench, world)) / 1000
        teller.say(f"keys that differ from the truth, by store: {recovered}")
    with teller.phase("continue", f"7. {FEEDS[3]:,} more orders: does it go on counting correctly?"):
        scene.feed(FEEDS[3])
        expected = truth(world, range(generator.sent))
        continued = differences(bench, expected)
        teller.say(f"keys that differ from the truth, by store: {continued}")
    return Report(
        strategy="full",
        guarantee=stack.guarantee,
        savepoints=[first["savepoint_id"], second["savepoint_id"]],
        records_copied=[first["new_records"], second["new_records"]],
        keys_compared=verified["keys_compared"] + sum(len(keys) for keys in expected.values()),
        state_equal=bool(recovered) and not any(recovered.values()),
        changelogs_equal=_all_stores_compared(manifest, verified),
        incremental=incremental,
        tail_and_suppress_covered=_covered(manifest, verified),
        offset_metadata_equal=offsets["with_metadata"] == sum(1 for c in manifest.committed().values() if c.metadata) > 0,
        continued_correctly=bool(continued) and not any(continued.values()),
        rpo_seconds=rpo,
        rto_seconds=round(rto, 1),
        phases=teller.phases,
    )


def _await_running(bench: Workbench) -> None:
    def running() -> bool | None:
        return True if all(status.streams_state == "RUNNING" for status in bench.application.status()) else None

    if poll(running, seconds=120, interval=0.5) is None:
        raise ApplicationNotReady("the application did not come up", next_step="see its logs", states=str(bench.application.status()))


def _incremental(bench: Workbench, first: Manifest, second: dict[str, Any]) -> bool:
    """Nothing below the first savepoint's ends was fetched again: what was fetched fits between them and the logs' ends now."""
    before = {
        TopicPartition(topic.name, part.partition): part.end if topic.role is TopicRole.CHANGELOG else part.log_start
        for topic in first.topics
        if topic.archived
        for part in topic.partitions
    }
    ends = bench.cluster.high_watermarks(list(before))
    new = sum(ends[tp] - end for tp, end in before.items() if tp in ends)
    return bool(second["parent_id"] == first.savepoint_id and 0 < second["fetched"] <= new)


def _all_stores_compared(manifest: Manifest, verified: dict[str, Any]) -> bool:
    changelogs = {topic.name for topic in manifest.topics if topic.role is TopicRole.CHANGELOG}
    equal = {store["topic"] for store in verified["stores"] if store["keys_compared"] > 0 and store["keys_different"] == 0}
    return bool(changelogs) and changelogs == equal


def _covered(manifest: Manifest, verified: dict[str, Any]) -> bool:
    tail = sum(topic.rows for topic in manifest.topics if topic.role is TopicRole.REPARTITION)
    suppress = {topic.name for topic in manifest.topics if topic.store is StoreKind.SUPPRESS}
    buffered = sum(store["keys_compared"] for store in verified["stores"] if store["topic"] in suppress)
    return tail > 0 and buffered > 0
