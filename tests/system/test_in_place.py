"""An application that goes back to a moment in place: what came later is out of its inputs, then behind them again, and every total is true each time."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from embedded.demo.checks import differences, wait_counted
from embedded.stack import Stack
from examples.order_processing.truth import truth
from streams_recovery.application.port import InstanceState
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.model import ApplicationConfig
from streams_recovery.core.errors import Refused
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.small import asked
from tests.support.stack.stage import ORDERS, Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]
READER, MORE, LATER = "reader-of-orders", 600, 250


class Impatient(Stack):
    """A stack in which producers have stopped when nothing came for two seconds."""

    def config(self) -> ApplicationConfig:
        """The example's configuration with that."""
        found = super().config()
        return found.model_copy(update={"restore": found.restore.model_copy(update={"producers_still_seconds": 2})})


@pytest.fixture
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage"), kind=Impatient) as found:
        yield found


def read_to_the_end(on: Stage) -> None:
    """Another group that has read all orders."""
    consumer = Consumer(
        on.recovery.connection.client_config(**{"group.id": READER, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe(["orders"])
    read = 0
    while read < on.generator.sent:
        read += len([message for message in consumer.consume(1_000, 10) if message.error() is None])
    consumer.commit(asynchronous=False)
    consumer.close()


def orders(on: Stage) -> list[TopicPartition]:
    return [TopicPartition("orders", number) for number in range(on.recovery.cluster.describe_topics(["orders"])["orders"].partitions)]


def behind(on: Stage) -> int:
    """Orders that the other group has not read."""
    ends, known = on.recovery.cluster.high_watermarks(orders(on)), on.recovery.groups.committed(READER, orders(on))
    return sum(end - (0 if (found := known[tp]) is None else found.offset) for tp, end in ends.items())


def test_an_application_goes_back_in_place_and_forward_again(on: Stage) -> None:
    recovery, generator = on.recovery, on.generator
    runner = Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)

    def backup() -> str:
        return runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None)).savepoint_id

    base = backup()
    generator.feed(MORE)
    wait_counted(recovery, ORDERS + MORE, seconds=180)
    read_to_the_end(on)
    kept = ORDERS + MORE - LATER
    wanted = asked(
        recovery,
        as_of=AsOf(moment=generator.world.timestamp(kept - 1), by=CutBy.TIMESTAMP),
        in_place=True,
        replace=True,
        groups=(READER,),
        safety=SafetyPolicy.SKIP,
    )
    with pytest.raises(Refused, match="take a savepoint"):
        runs.restore_in_place(runner, wanted, runs.Requester(run_id="early", requested_by="test"), approve=lambda _: True)
    archive = backup()

    report = runs.restore_in_place(
        runner, wanted, runs.Requester(run_id="back", requested_by="test"), approve=lambda planned: planned.savepoint_id == base
    )
    assert report.savepoint_id == base
    assert {status.state for status in recovery.application.status()} == {InstanceState.GONE}
    assert sum(recovery.cluster.high_watermarks(orders(on)).values()) == kept
    assert behind(on) == 0, "who had read everything has read everything that is left"
    recovery.application.start()
    on.await_running()
    wait_counted(recovery, kept, seconds=180)
    assert set(differences(recovery, truth(generator.world, range(kept))).values()) == {0}

    appended = runs.append(
        runner, "latest", runs.Requester(run_id="forward", requested_by="test"), approve=lambda planned: planned.savepoint_id == archive
    )
    assert (appended.rows, appended.present, behind(on)) == (LATER, 0, LATER)
    wait_counted(recovery, ORDERS + MORE, seconds=180)
    assert set(differences(recovery, truth(generator.world, range(ORDERS + MORE))).values()) == {0}
    assert on.held() == []
