"""A real application that is down for a while: because a restore that has stopped it was killed, or because it runs only now and then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from examples.order_processing.truth import truth
from streams_recovery.application.port import InstanceState
from streams_recovery.core import codec
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.scheduled_run import parse_limit
from streams_recovery.core.waiting import poll
from streams_recovery.operations import conditions, quiesce_record, restore, scheduled_run
from tests.support.applications.small import asked
from tests.support.applications.topic_records import aborted
from tests.support.leases import later
from tests.support.stack.changelogs import wrong_in_changelogs
from tests.support.stack.commands import Command, jobs_of
from tests.support.stack.savepoints import take
from tests.support.stack.stage import Stage, stage
from tests.support.stack.watch import Condition

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage"), orders=400) as made:
        yield made


@pytest.mark.fault("F3")
def test_an_application_that_a_killed_restore_has_stopped_is_brought_back_by_the_next_savepoint(on: Stage) -> None:
    recovery = on.recovery
    take(on, recovery, "before")
    planned = restore.plan(recovery, asked(recovery, replace=True, reason="killed"))
    watch = Condition(on)
    with Command(on, "restore", "--replace", "--reason", "killed", "--approve", planned.hash, "--logs", str(on.stack.directory)) as command:
        assert command.kill_when(watch.held, near=lambda: bool(watch.new("locks/*")))
    assert poll(lambda: None if jobs_of(on) else True, seconds=60), "a job outlived the run it belongs to"
    assert watch.held()
    left = quiesce_record.left(recovery)
    assert left is not None
    assert left.instances == ("order-processor-1", "order-processor-2")
    take(on, later(recovery), "after")
    assert len(on.await_running()) == 2
    assert (on.held(), quiesce_record.left(recovery)) == ([], None)


def test_a_run_ends_behind_aborted_records_with_all_that_its_input_caused(on: Stage) -> None:
    recovery, generator = on.recovery, on.generator
    assert recovery.application.stop(timeout=60).gone
    generator.feed(500)
    for number in range(4):
        aborted(recovery, TopicPartition("orders", number))
    begun = scheduled_run.begin(recovery, parse_limit("ends"), run_id="run")
    assert len(begun.instances) == 2
    facts: dict[str, Any] = {"ends": codec.encode(begun.ends), "until": None}

    def reached() -> bool | None:
        found = conditions.ends_reached(recovery, facts)
        facts.update(found.facts)
        return found.done or None

    try:
        assert poll(reached, seconds=300, interval=1)
    finally:
        report = scheduled_run.end(recovery, begun)
    assert {status.state for status in recovery.application.status()} == {InstanceState.GONE}
    assert (report.behind, report.unread, report.closed_cleanly) == ({}, {}, True)
    wrong = wrong_in_changelogs(recovery, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert scheduled_run.begin(recovery, parse_limit("ends"), run_id="again").instances == (), "nothing is left"
