"""An input and a global of the example are deleted. They come back alone, at other offsets, and every total stays true: the state was never touched."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from embedded.demo.checks import differences, wait_counted
from examples.order_processing.truth import truth
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationRunning
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.restore.parts.topics import TopicsPart
from streams_recovery.core.restore.report import Verdict
from streams_recovery.core.restore.single_topics import HowKnown
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations.restore.strategies import RestoreTopics
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.topic_records import delete_below
from tests.support.stack.stage import ORDERS, Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]
MORE, EXPIRED = 600, 100


@pytest.fixture
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage")) as found:
        yield found


def test_a_deleted_input_and_global_come_back_and_every_total_stays_true(on: Stage) -> None:
    recovery, generator = on.recovery, on.generator
    runner = Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)
    logs = [TopicPartition("orders", number) for number in range(recovery.cluster.describe_topics(["orders"])["orders"].partitions)]
    # What is processed expires, so that nothing is at its old offset afterwards.
    for tp in logs:
        delete_below(recovery, tp, EXPIRED)
    runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None))
    ends = recovery.cluster.high_watermarks(logs)
    request = RestoreTopics(topics=("orders", "customers"), reason="somebody deleted them")
    me = runs.Requester(run_id="alone", requested_by="test")

    recovery.application.stop(timeout=60)
    recovery.groups.wait_empty(recovery.application_id, 60)
    recovery.cluster.delete_topics(["orders", "customers"])
    internal = recovery.cluster.describe_topics(on.internal_topics())
    recovery.application.start()
    with pytest.raises(ApplicationRunning):
        runs.restore_in_place(runner, request, me, approve=lambda _: True)
    recovery.application.stop(timeout=60)
    recovery.groups.wait_empty(recovery.application_id, 60)

    report = runs.restore_in_place(runner, request, me, approve=lambda planned: planned.part.wipes_noted)
    assert report.verdict is Verdict.EQUAL
    assert isinstance(report.part, TopicsPart)
    assert {report.part.single.known[tp] for tp in logs} == {HowKnown.ALL_READ}
    assert recovery.cluster.high_watermarks(logs) == {tp: end - EXPIRED for tp, end in ends.items()}
    found = recovery.groups.committed(recovery.application_id, logs)
    assert {tp: one.offset for tp, one in found.items() if one is not None} == {tp: end - EXPIRED for tp, end in ends.items()}
    assert {name: one.topic_id for name, one in recovery.cluster.describe_topics(list(internal)).items()} == {
        name: one.topic_id for name, one in internal.items()
    }

    recovery.application.start()
    on.await_running()
    generator.feed(MORE)
    wait_counted(recovery, ORDERS + MORE, seconds=180)
    assert set(differences(recovery, truth(generator.world, range(ORDERS + MORE))).values()) == {0}
    assert on.held() == []
