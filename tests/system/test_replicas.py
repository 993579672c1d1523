"""Instances that stand by for each other, as static members: all are wiped, all come back, and each is whole."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.demo.checks import differences, wait_counted
from embedded.stack import Stack
from examples.order_processing.truth import truth
from streams_recovery.application import http_control
from streams_recovery.application.instance_record import InstanceFiles
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.core.errors import ApplicationNotReady
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.restore.request import SafetyPolicy
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations import conditions
from streams_recovery.operations.savepoint import SavepointRequest
from streams_recovery.storage.append_log import AppendLog
from tests.support.applications.small import asked
from tests.support.stack.stage import ORDERS, Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(900)]

MORE = 500
# A versioned store is asked for one key at a time.
REPLICATED = ("order-totals", "latest-orders", "region-totals", "product-sales", "orders-per-minute", "order-sessions")


class Replicated(Stack):
    """A stack whose two instances each keep a copy of the other one's state, as static members: such a one does not leave its group when it is closed.
    Savepoints close them: a pause would be their end.
    """

    @property
    def variables(self) -> dict[str, str]:
        """A standby replica of every task, and each instance a member by its own name for as long as Kafka's default says."""
        return {
            **super().variables,
            "ORDER_PROCESSING_STANDBY_REPLICAS": "1",
            "ORDER_PROCESSING_CONSISTENCY_MODE": "stop",
            "ORDER_PROCESSING_GROUP_INSTANCE_ID": "{name}",
            "STREAMS_RECOVERY_SESSION_TIMEOUT_MS": "45000",
        }


@pytest.fixture
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("stage"), kind=Replicated) as found:
        yield found


def instance_ids(on: Stage) -> set[str | None]:
    return {member.group_instance_id for member in on.recovery.groups.describe(on.recovery.application_id).members}


def runner(on: Stage) -> Runner:
    return Runner(recovery=on.recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)


def restored(on: Stage, **wanted: object) -> str:
    """Bring back the newest savepoint in place of what is there. The id of the restore."""
    requester = runs.Requester(run_id=uuid.uuid4().hex, requested_by="test")
    return runs.restore_in_place(runner(on), asked(on.recovery, replace=True, **wanted), requester, approve=lambda _: True).restore_id


def mark(on: Stage) -> list[Path]:
    """Something in every instance's local state that only a wipe takes away."""
    process = on.recovery.config.runs.process
    assert process is not None
    left = [Path(one.state_directory) / on.recovery.application_id / "left" for one in process.instances]
    for file in left:
        file.write_text("still here")
    return left


def urls(on: Stage) -> list[str]:
    process = on.recovery.config.runs.process
    assert process is not None
    return [one.url for one in process.instances]


def check_whole(on: Stage, orders: int) -> None:
    """Every instance has all of the state, its own part and what it stands by for, and all of it is true."""
    expected = truth(on.generator.world, range(orders))
    assert set(differences(on.recovery, expected).values()) == {0}

    def unlike() -> list[str]:
        found = []
        for url in urls(on):
            for store in REPLICATED:
                try:
                    same = http_control.store(url, "/replicas/{store}", store) == expected[store]
                except ApplicationNotReady:
                    same = False
                found += [] if same else [f"{store} at {url}"]
        return found

    assert poll(lambda: True if not unlike() else None, seconds=120, interval=1), unlike()
    assert all(http_control.reported(url, "/health").standby_tasks for url in urls(on))


def check_started_after_the_wipe(on: Stage, restore_id: str) -> None:
    process = on.recovery.config.runs.process
    assert process is not None
    journal = AppendLog(on.recovery.repository, on.recovery.layout.journal(restore_id), JournalEntry).read_all()
    at = {entry.phase: entry.at for entry in journal}
    started = [InstanceFiles(Path(process.directory), one.name).started() for one in process.instances]
    times = [run.at for run in started if run is not None]
    assert len(times) == 2
    assert [at[Phase.WIPED], at[Phase.STARTED], *sorted(times)] == sorted([at[Phase.WIPED], *times, at[Phase.STARTED]])


@contextmanager
def reports(on: Stage) -> Iterator[list[int]]:
    """What the instances report meanwhile of records that are left to restore."""
    seen: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.extend(told for url in urls(on) if (told := http_control.reported(url, "/health").restoring) is not None)
            time.sleep(0.002)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        done.set()
        looking.join()


@pytest.mark.fault("F45", "F51")
def test_instances_that_stand_by_for_each_other_are_all_wiped_and_all_whole_again(on: Stage) -> None:
    members = {"order-processor-1-1", "order-processor-2-1"}
    check_whole(on, ORDERS)
    assert instance_ids(on) == members
    runs.backup(runner(on), SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=None))
    on.await_running()
    on.generator.feed(MORE)
    wait_counted(on.recovery, ORDERS + MORE, seconds=180)
    left = mark(on)
    with reports(on) as seen:
        restore_id = restored(on, safety=SafetyPolicy.SKIP)
    on.await_running()
    assert [file.exists() for file in left] == [False, False]
    check_started_after_the_wipe(on, restore_id)
    assert instance_ids(on) == members
    assert max(seen) > 0, "an instance tells what is left to restore"
    look = conditions.restoration_done(on.recovery, {})
    assert (look.done, look.message.count(" 0 records left to restore")) == (True, 2)
    check_whole(on, ORDERS + MORE)
    assert on.held() == []
