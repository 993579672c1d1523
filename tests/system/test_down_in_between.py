"""A real application that is down because a restore that has stopped it was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams_recovery import restores, standstills
from streams_recovery.waiting import poll
from tests.integration.small import asked
from tests.system.commands import Command, jobs_of
from tests.system.stage import Stage, stage
from tests.system.test_killed_savepoints import later, take
from tests.system.watching import Watch

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage"), orders=400) as made:
        yield made


@pytest.mark.fault("F3")
def test_an_application_that_a_killed_restore_has_stopped_is_brought_back_by_the_next_savepoint(on: Stage) -> None:
    bench = on.bench
    take(on, bench, "before")
    planned = restores.plan(bench, asked(bench, replace=True, reason="killed"))
    watch = Watch(on)
    with Command(on, "restore", "--replace", "--reason", "killed", "--approve", planned.hash, "--logs", str(on.stack.directory)) as command:
        assert command.kill_when(watch.held, near=lambda: bool(watch.new("locks/*")))
    assert poll(lambda: None if jobs_of(on) else True, seconds=60), "a job outlived the run it belongs to"
    assert watch.held()
    left = standstills.left(bench)
    assert left is not None
    assert left.instances == ("order-processor-1", "order-processor-2")
    take(on, later(bench), "after")
    assert len(on.await_running()) == 2
    assert (on.held(), standstills.left(bench)) == ([], None)
