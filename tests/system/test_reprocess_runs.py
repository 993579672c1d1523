"""Hours of the past, processed again by a backfill of Airflow: results that the generator's orders prove, and an application that never noticed.

One stack; the tests follow each other as one story.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from embedded.airflow import Airflow
from embedded.airflow_client import AirflowClient
from embedded.applications import Applications
from embedded.demo.checks import wait_counted
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.config.sandbox_application import SandboxName
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.interval import Interval
from streams_recovery.operations import interval as reprocessing
from tests.support.kafka.records_below import records_below
from tests.support.kafka.topic_settings import alter
from tests.support.stack.commands import Command
from tests.support.stack.stage import Stage, stage

DAG = f"streams_reprocess_{APPLICATION}"
HOUR = 3_600_000
STEP, FIRST, LATER = 3_000, 800, 2_200
HISTORY = 90_000
RESULTS = {"customer-totals": "order-totals", "enriched-orders": "enriched-orders"}

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]


@dataclass(frozen=True)
class Play:
    """The stage with its Airflow. Orders begin 20 minutes into hour 0: 800 are in it, 1,200 in hour 1, 1,000 in hour 2, none in hour 3."""

    on: Stage
    airflow: AirflowClient
    hour_0: int

    def hour(self, number: int) -> Interval:
        return Interval(start=self.hour_0 + number * HOUR, end=self.hour_0 + (number + 1) * HOUR)

    def orders(self, number: int) -> list[int]:
        """Numbers of the orders of an hour."""
        world, interval = self.on.generator.world, self.hour(number)
        return [order for order in range(self.on.generator.sent) if world.timestamp(order) in interval]

    def moment(self, number: int) -> str:
        return datetime.fromtimestamp(self.hour(number).start / 1000, UTC).isoformat()

    def results(self, output: str, number: int) -> dict[str, Any]:
        """The newest result of each key that is of the hour, in the topic of its own."""
        return self.newest(f"reprocess.{output}-{self.hour(number).name}", self.hour(number))

    def newest(self, topic: str, interval: Interval) -> dict[str, Any]:
        """The newest record of each key that is of the interval."""
        ends = self.on.recovery.cluster.high_watermarks([TopicPartition(topic, partition) for partition in range(4)])
        return {
            message.key().decode(): json.loads(message.value())
            for _, message in records_below(self.on.stack.bootstrap, ends)
            if message.timestamp()[1] in interval
        }

    def around(self) -> tuple[Any, ...]:
        """All that reprocessing must not touch: instances, where the real outputs and inputs end, what is committed, lock and holds."""
        recovery = self.on.recovery
        topics = recovery.cluster.describe_topics([*recovery.config.topics.outputs, *recovery.config.topics.inputs])
        logs = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
        committed = recovery.groups.committed(recovery.application_id, logs)
        return self.on.instances(), recovery.cluster.high_watermarks(logs), committed, self.on.held()

    def here(self) -> set[str]:
        """Topics and groups of the cluster."""
        return {*self.on.recovery.cluster.topic_names(), *self.on.recovery.cluster.groups()}

    def alive(self) -> list[str]:
        """What is left on the machine of applications that processed intervals: processes, and files of their state."""
        stack, found = self.on.stack, []
        assert isinstance(stack, Applications)
        for slot in (0, 1):
            config = stack.named(str(SandboxName(application=APPLICATION, interval=self.hour(1).name, slot=slot)))
            statuses = open_application(config.runs, config.application.id).status()
            found += [status.name for status in statuses if status.state is not InstanceState.GONE]
        return [*found, *(str(path) for path in stack.slots_state.glob("*/*"))]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    hour_0 = (time.time_ns() // 1_000_000 // HOUR - 5) * HOUR
    directory: Path = tmp_path_factory.mktemp("stage")
    with stage(directory, kind=Applications, orders=FIRST, start_ms=hour_0 + HOUR // 3, step_ms=STEP) as on:
        _long_history(on)
        assert Command(on, "backup", "--json").result()["consistency"] == "exact"
        on.generator.feed(LATER)
        wait_counted(on.recovery, FIRST + LATER, seconds=180)
        assert Command(on, "backup", "--json").result()["consistency"] == "exact"
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client, hour_0)
        client.close()


def _long_history(on: Stage) -> None:
    """Much of the inventory's past that nobody asks for, and the inventory once more behind it. An application that got all at once would have joined
    its orders long before it came to that, and their results would come again with a time from before their hour.
    """
    old = (f"old-{number % 40}" for number in range(HISTORY))
    _written(on, "inventory", old, b'{"name":"old","stock":0}', on.generator.world.start_ms)
    on.generator.feed_reference_data()


def _written(on: Stage, topic: str, keys: Iterable[str], value: bytes, timestamp: int) -> None:
    producer = Producer({"bootstrap.servers": on.stack.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for number, key in enumerate(keys):
        producer.produce(topic, value, key.encode(), timestamp=timestamp)
        if number % 1_000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


def test_hours_of_the_past_are_processed_again_two_at_once_and_the_application_never_notices(play: Play) -> None:
    before, here = play.around(), play.here()
    assert [len(play.orders(number)) for number in range(4)] == [800, 1_200, 1_000, 0]
    play.airflow.backfill(DAG, play.moment(1), play.moment(3), conf={"reason": "a test"}, max_active_runs=3)
    runs = play.airflow.runs(DAG, "backfill")
    assert len(runs) == 3, runs
    states = {start: play.airflow.wait(DAG, run_id, seconds=900, on_change=lambda *_: None) for start, run_id in sorted(runs.items())}
    assert set(states.values()) == {"success"}, "\n".join(play.airflow.failures(DAG, run_id) for run_id in runs.values())
    by_hour = dict(zip((1, 2, 3), (runs[start] for start in sorted(runs)), strict=True))

    for number in (1, 2):
        orders = play.orders(number)
        assert play.airflow.result(DAG, by_hour[number], "plan")["records"] == len(orders)
        expected = truth(play.on.generator.world, orders)
        for output, store in RESULTS.items():
            assert play.results(output, number) == expected[store], (output, number)
        published = {one["output"]: one for one in play.airflow.result(DAG, by_hour[number], "publish_results")["outputs"]}
        assert (published["enriched-orders"]["results"] >= len(expected["enriched-orders"]), published["enriched-orders"]["outside"]) == (
            True,
            0,
        )
        loaded = play.airflow.result(DAG, by_hour[number], "check_deferred_input")
        assert (loaded["rows"] - loaded["present"], loaded["present"]) == (len(orders), 0), (
            "orders wait for the tables, which have no record of the hour"
        )
        assert play.airflow.result(DAG, by_hour[number], "drain")["closed_cleanly"]
        removed = play.airflow.result(DAG, by_hour[number], "remove")
        assert len(removed["topics"]) == 16 + 3, "internal topics and copies of inputs"
    slots = {play.airflow.result(DAG, by_hour[number], "claim")["slot"] for number in (1, 2)}
    assert slots == {0, 1}, "both at once"
    empty = play.airflow.result(DAG, by_hour[3], "plan")
    assert (empty["records"], "Nothing is started" in empty["text"]) == (0, True)
    tasks = play.airflow.tasks(DAG, by_hour[3])
    assert (tasks["open_restore"], tasks["start_application"], tasks["remove"], tasks["conclude"]) == ("skipped",) * 3 + ("success",)

    kept = {f"reprocess.{output}-{play.hour(number).name}" for output in play.on.recovery.config.topics.outputs for number in (1, 2)}
    assert play.around() == before
    assert play.here() == here | kept
    assert (play.alive(), reprocessing.busy(play.on.recovery)) == ([], ())
    entries = reprocessing.history(play.on.recovery)
    assert sorted((entry.start, entry.records, entry.succeeded) for entry in entries) == [
        (play.hour(1).start, 1_200, True),
        (play.hour(2).start, 1_000, True),
        (play.hour(3).start, 0, True),
    ]


def test_the_schedule_itself_starts_nothing(play: Play) -> None:
    runs = play.airflow.runs(DAG, "scheduled")
    assert runs, "the newest interval has a run"
    for run_id in runs.values():
        assert play.airflow.wait(DAG, run_id, seconds=200, on_change=lambda *_: None) == "success"
        assert set(play.airflow.tasks(DAG, run_id).values()) == {"skipped"}


def test_wrong_results_are_replaced_in_the_outputs_of_a_running_application_from_the_state_before_them(play: Play) -> None:
    on, outputs = play.on, play.on.recovery.config.topics.outputs
    never = str(2**63 - 1)
    alter(on.recovery.cluster, {output: {"cleanup.policy": "compact", "min.compaction.lag.ms": never} for output in outputs})
    both = Interval(start=play.hour(1).start, end=play.hour(2).end)
    expected = truth(on.generator.world, range(FIRST + LATER))
    assert play.newest("customer-totals", both) == expected["order-totals"]
    wrong = [f"c-{number}" for number in range(7)]
    _written(on, "customer-totals", wrong, b'{"count":-1,"cents":-1}', both.end - 1)
    before, here = on.instances(), play.here()
    asked = ("--from", play.moment(1), "--to", play.moment(3), "--base", "savepoint", "--publish", "replace")
    assert "the plan was not approved" in Command(on, "reprocess", *asked).refused(3)
    planned = Command(on, "reprocess", *asked, "--plan", "--json").result()
    entry = Command(on, "reprocess", *asked, "--approve", planned["approve"], "--json").result()
    assert (entry["records"], entry["succeeded"], entry["savepoint_id"]) == (LATER, True, min(on.recovery.savepoints.ids()))
    published = {one["output"]: (one["written"], one["tombstones"], one["superseded"]) for one in entry["published"]["outputs"]}
    assert published == {"customer-totals": (len(wrong), 0, 0), "enriched-orders": (0, 0, 0), "order-counts-final": (0, 0, 0)}
    for output, store in RESULTS.items():
        assert play.newest(output, both) == expected[store], output
    beside = {f"reprocess.{output}-{both.name}" for output in outputs}
    assert beside < here, "those of the hour that begins at the same moment"
    assert (on.instances(), play.here(), play.alive()) == (before, here - beside, [])
