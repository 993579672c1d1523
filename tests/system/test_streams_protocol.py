"""Savepoints of an application whose group is of the streams protocol: to clients that do not know it such a group is dead while it runs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from embedded.demo.checks import differences, wait_counted
from examples.order_processing.truth import truth
from streams_recovery.application.factory import open_application
from streams_recovery.cli import runs
from streams_recovery.cli.runner import Runner
from streams_recovery.config.runs import Runs
from streams_recovery.core.errors import ApplicationRunning, Refused
from streams_recovery.core.kafka_types import CommittedOffset, Consistency, QuiesceMode
from streams_recovery.core.waiting import poll
from streams_recovery.engine.submitter import SparkSubmit
from streams_recovery.operations import savepoint
from streams_recovery.operations.savepoint import SavepointRequest
from tests.support.applications.savepoint_steps import begun, copy
from tests.support.applications.small import STOPPED, asked, says, with_policy
from tests.support.stack.oracle import problems
from tests.support.stack.savepoints import cut_of
from tests.support.stack.stage import Stage, stage

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(2_400)]


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("STREAMS_RECOVERY_GROUP_PROTOCOL", "streams")
        environment.setenv("ORDER_PROCESSING_TICK_MS", "250")
        with stage(tmp_path_factory.mktemp("stage"), orders=400) as found:
            yield found


@pytest.mark.fault("F52")
def test_a_running_application_never_looks_stopped(on: Stage) -> None:
    recovery, before = on.recovery, on.await_running()
    group = recovery.groups.describe(recovery.application_id)
    assert (group.kind, group.empty) == ("streams", False)
    assert group.members, "they are named"
    assert all("-StreamThread-" in member.client_id and member.tasks for member in group.members)
    answer = says(STOPPED)
    mistaken = Runs.model_validate({"kind": "command", "command": {"status": answer, "stop": answer, "start": ["true"], "wipe": ["true"]}})
    blind = replace(recovery, application=open_application(mistaken, recovery.application_id))
    with pytest.raises(Refused, match="no known instance accounts for") as caught:
        begun(blind)
    assert all(member.client_id.split("-StreamThread-")[0] in str(caught.value) for member in group.members)
    committed = recovery.groups.committed(recovery.application_id, recovery.groups.committed_partitions(recovery.application_id))
    tp = next(iter(committed))
    with pytest.raises(ApplicationRunning, match="of the streams protocol has members: "):
        recovery.groups.set_offsets(recovery.application_id, {tp: CommittedOffset(offset=0, metadata="", leader_epoch=None)})
    assert on.await_running() == before
    assert on.held() == []
    assert recovery.savepoints.ids() == []


@pytest.mark.parametrize("mode", [QuiesceMode.PAUSE, QuiesceMode.STOP, QuiesceMode.LIVE])
def test_its_savepoints_are_exact_and_say_what_it_was(on: Stage, mode: QuiesceMode) -> None:
    on.await_running()
    # It ticks: on a busy machine few looks at a running one fall between two commits.
    recovery = with_policy(on.recovery, attempts=1_000)
    draft = cut_of(recovery, mode, f"streams-{mode}")
    assert draft.group_type == "streams"
    assert draft.consistency is Consistency.EXACT, draft.proof
    assert problems(recovery, draft) == []
    on.await_running()


@pytest.mark.fault("F52")
def test_a_published_savepoint_names_the_protocol_and_a_stopped_group_is_empty(on: Stage) -> None:
    recovery = on.recovery
    on.await_running()
    ticket = begun(recovery)
    try:
        try:
            cut = savepoint.capture(recovery, ticket, savepoint.quiesce(recovery, ticket))
            stopped = recovery.groups.describe(recovery.application_id)
            assert (stopped.kind, stopped.empty) == ("streams", True)
        finally:
            savepoint.resume(recovery, ticket)
        summary = savepoint.publish(recovery, ticket, savepoint.gather(recovery, ticket, *copy(recovery, ticket, cut)).copied)
    finally:
        savepoint.finish(recovery, ticket)
    manifest = recovery.savepoints.read(summary.savepoint_id)
    assert (manifest.group_type, manifest.consistency) == ("streams", Consistency.EXACT)
    assert manifest.records > 0
    assert poll(lambda: True if not recovery.groups.describe(recovery.application_id).empty else None, seconds=60, interval=0.5)


@pytest.mark.fault("F52")
@pytest.mark.remedy("group-trap")
def test_on_newer_brokers_its_group_comes_back_with_a_restore_and_is_loaded_after_a_restart(on: Stage) -> None:
    recovery, world = on.recovery, on.generator.world
    on.await_running()
    runner = Runner(recovery=recovery, submitter=SparkSubmit(master="local[2]", logs=on.stack.directory / "logs"), say=print)
    runs.backup(runner, SavepointRequest(run_id=uuid.uuid4().hex, requested_by="test", reason="", mode=QuiesceMode.STOP))
    saved = on.generator.acknowledged
    recovery.application.stop(timeout=60)
    recovery.cluster.delete_topics(on.internal_topics())
    recovery.groups.delete(recovery.application_id)
    recovery.application.wipe_state()
    assert recovery.groups.describe(recovery.application_id).kind == "absent"
    runs.restore_in_place(runner, asked(recovery), runs.Requester(run_id="back", requested_by="test"), approve=lambda _: True)
    on.await_running()
    assert recovery.groups.describe(recovery.application_id).kind == "streams"
    on.generator.feed(100)
    wait_counted(recovery, saved + 100, seconds=180)
    assert set(differences(recovery, truth(world, range(saved + 100))).values()) == {0}
    # The coordinator reads all of it again: what was a classic group once, and is one of streams now.
    on.processes.stop("broker")
    on.stack.start_broker(on.processes)
    on.await_running()
    on.generator.feed(100)
    wait_counted(recovery, saved + 200, seconds=180)
    assert set(differences(recovery, truth(world, range(saved + 200))).values()) == {0}
    assert recovery.groups.describe(recovery.application_id).kind == "streams"
