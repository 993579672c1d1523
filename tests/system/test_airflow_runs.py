"""The other DAGs in Airflow, on one stack: a check, a smaller savepoint, a rebuild, drills, a run, a moment of the past."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from embedded.airflow import Airflow
from embedded.applications import PAST, PAST_TOPICS, Applications
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.sandbox_application import SandboxName, in_sandbox
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.names import internal_role
from streams_recovery.operations import restore, sandbox
from streams_recovery.operations.context import open_context
from tests.support.stack.changelogs import wrong_in_changelogs
from tests.support.stack.dag_runs import Play, internal_rows
from tests.support.stack.stage import Stage, stage
from tests.support.story import play_through

BACKUP, CHECK, DRILL, RUN = (f"streams_{what}_{APPLICATION}" for what in ("backup", "check", "drill", "run"))
COMPACT = "streams_compact"
RESTORE, REBUILD, PITR = "streams_restore_full", "streams_restore_rebuild", "streams_restore_pitr"

pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), kind=Applications) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


def test_the_other_ways_back_in_airflow(play: Play) -> None:
    play_through(STORY, play)


def savepoints_are_taken(play: Play) -> None:
    play.succeed(BACKUP)


def a_check_reads_every_file_and_names_a_damaged_one(play: Play) -> None:
    state, _, failures = play.run(CHECK, level="full")
    assert (state, failures) == ("success", "")
    manifest = play.on.recovery.savepoints.latest()
    assert manifest is not None
    tp, file = next(iter(manifest.files()))
    path = play.on.stack.directory / "repository" / file.key
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        state, tasks, failures = play.run(CHECK, level="full")
    finally:
        path.write_bytes(whole)
    assert (state, tasks["conclude"]) == ("failed", "failed")
    assert file.key in failures
    assert f"{tp}, offsets" in failures


def a_savepoint_is_compacted_without_anybody_noticing(play: Play) -> None:
    before, source = play.on.instances(), play.on.recovery.savepoints.latest()
    assert source is not None
    run_id = play.succeed(COMPACT, application=APPLICATION, reason="smaller")
    done = play.airflow.result(COMPACT, run_id, "publish")
    compacted = play.on.recovery.savepoints.latest()
    assert compacted is not None
    assert (done["savepoint_id"], done["source_id"]) == (compacted.savepoint_id, source.savepoint_id)
    assert compacted.replaces == source.savepoint_id
    assert (compacted.captured_at, compacted.committed()) == (source.captured_at, source.committed())
    assert done["keys_compared"] > 0
    assert done["rows_after"] < done["rows_before"] / 2
    versions = "order-processor-order-versions-changelog"
    assert "every row counts" in done["stays"][versions]
    assert compacted.topic(versions) == source.topic(versions)
    assert (play.on.instances(), play.on.held()) == (before, [])


def a_restore_takes_the_smaller_one(play: Play) -> None:
    destroy(play.on.recovery)
    play.succeed(RESTORE, application=APPLICATION)
    newest = play.on.recovery.savepoints.latest()
    assert newest is not None
    assert newest.replaces is not None
    report, _ = restore.evidence(play.on.recovery)
    assert (report.savepoint_id, report.verdict, report.rows) == (newest.savepoint_id, restore.Verdict.EQUAL, internal_rows(newest))
    play.on.await_running()
    wrong = differences(play.on.recovery, truth(play.on.generator.world, range(play.on.generator.sent)))
    assert set(wrong.values()) == {0}, wrong


def state_is_built_again_from_the_input_without_a_savepoint(play: Play) -> None:
    recovery, generator = play.on.recovery, play.on.generator
    before = {name: found.topic_id for name, found in recovery.cluster.describe_topics(play.on.internal_topics()).items()}
    deleted = [f"| {name} |" for name in before]
    run_id = play.succeed(
        REBUILD,
        approve=lambda body: all(row in body for row in deleted),
        application=APPLICATION,
        replace=True,
        confirm=recovery.application_id,
    )
    assert set(play.airflow.result(REBUILD, run_id, "verify_cleared")["gone"]) == set(before)
    report = play.airflow.result(REBUILD, run_id, "finish")
    assert report["savepoint_id"] is None
    assert report["safety_savepoint"] == recovery.safety.ids()[-1]
    after = {name: found.topic_id for name, found in recovery.cluster.describe_topics(play.on.internal_topics()).items()}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values()), "every internal topic is another one"
    generator.feed(500)
    wait_counted(recovery, generator.acknowledged, seconds=180)
    wrong = differences(recovery, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


def a_drill_measures_a_whole_restore_and_production_never_notices(play: Play) -> None:
    recovery, generator = play.on.recovery, play.on.generator
    generator.feed(1_000)
    wait_counted(recovery, generator.acknowledged, seconds=180)
    assert set(differences(recovery, truth(generator.world, range(generator.sent))).values()) == {0}
    before, ends, cluster = play.on.await_running(), outputs(play.on), here(play.on)
    savepoint = recovery.savepoints.latest()
    assert savepoint is not None

    run_id = play.succeed(DRILL)
    assert outputs(play.on) == ends
    assert play.on.instances() == before
    assert here(play.on) == cluster, "no topic and no group of the drill is left"
    assert local_state(play.on) == []
    text = play.airflow.result(DRILL, run_id, "plan")["text"]
    assert "input records past the savepoint" in text
    assert "Estimated time: **" in text
    recovered = play.airflow.result(DRILL, run_id, "await_recovered")
    assert recovered["instances"] == ["order-processor-drill"]
    assert {store["store"] for store in recovered["query_checks"]} >= {"order-totals", "latest-orders", "enriched-orders"}
    assert [store for store in recovered["query_checks"] if store["different"]] == []
    removed = play.airflow.result(DRILL, run_id, "remove")
    assert len(removed["topics"]) == 16 + 3
    [entry] = sandbox.drills(recovery)
    assert (entry.succeeded, entry.savepoint_id) == (True, savepoint.savepoint_id)
    assert entry.rows == internal_rows(savepoint)
    assert entry.rpo_seconds == pytest.approx((entry.began_at - savepoint.captured_at) / 1000, abs=0.1)
    assert entry.rto_seconds is not None
    assert entry.rto_seconds > 0
    assert play.on.held() == []


def a_drill_that_fails_half_way_says_so_and_leaves_nothing_either(play: Play) -> None:
    recovery = play.on.recovery
    before, ends, cluster = play.on.instances(), outputs(play.on), here(play.on)
    savepoint = recovery.savepoints.latest()
    assert savepoint is not None
    file = next(file for tp, file in savepoint.files() if internal_role(tp.topic, recovery.application_id))
    path = play.on.stack.directory / "repository" / file.key
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    try:
        state, tasks, _ = play.run(DRILL)
    finally:
        path.write_bytes(whole)
    assert (state, tasks["load_records"], tasks["remove"], tasks["conclude"]) == ("failed", "failed", "success", "failed")
    assert (outputs(play.on), play.on.instances(), here(play.on), local_state(play.on)) == (ends, before, cluster, [])
    assert [(entry.succeeded, entry.outcome) for entry in sandbox.drills(recovery)][1:] == [(False, "failed after created")]
    assert play.on.held() == []


def an_application_is_run_to_the_ends_of_its_input_and_is_down_again(play: Play) -> None:
    recovery, generator = play.on.recovery, play.on.generator
    state, tasks, failures = play.run(RUN)
    assert (state, tasks["start_application"]) == ("failed", "failed")
    assert "runs already: order-processor-1" in failures
    assert play.on.instances() == play.on.await_running()

    assert recovery.application.stop(timeout=60).gone
    generator.feed(500)
    run_id = play.succeed(RUN)
    report = play.airflow.result(RUN, run_id, "stop_application")
    assert (report["behind"], report["unread"]) == ({}, {})
    wrong = wrong_in_changelogs(recovery, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert sum(count for name, count in report["processed"].items() if name.rpartition("-")[0] == "orders") >= 500
    assert {status.state.value for status in recovery.application.status()} == {"gone"}
    run_id = play.succeed(RUN)
    assert play.airflow.result(RUN, run_id, "start_application")["instances"] == [], "nothing new, nothing started"

    recovery.application.start()
    play.on.await_running()
    wait_counted(recovery, generator.acknowledged, seconds=180)
    wrong = differences(recovery, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


def a_second_application_is_brought_to_a_moment_of_the_first(play: Play) -> None:
    stack, recovery, generator = play.on.stack, play.on.recovery, play.on.generator
    assert isinstance(stack, Applications)
    base = recovery.savepoints.latest()
    assert base is not None
    generator.feed(600)
    last = generator.sent - 250
    wait_counted(recovery, generator.acknowledged, seconds=180)
    play.succeed(BACKUP)
    before, written = play.on.instances(), outputs(play.on)

    at = datetime.fromtimestamp(generator.world.timestamp(last) / 1000, UTC).isoformat(timespec="milliseconds")
    state, _, failures = play.run(PITR, application=APPLICATION, as_of=at)
    assert (state, "cannot be brought to a moment in place" in failures) == ("failed", True)
    with open_context(stack.named(PAST), EnvironmentConnections({**os.environ, **stack.variables})) as past:
        try:
            run_id = play.succeed(
                PITR,
                approve=lambda body: base.savepoint_id in body and "then **stop**" in body,
                application=PAST,
                source=APPLICATION,
                as_of=at,
            )
            assert [status.state for status in past.application.status()] == [InstanceState.GONE]
            copies = [TopicPartition(PAST_TOPICS["orders"], number) for number in range(4)]
            assert sum(past.cluster.high_watermarks(copies).values()) == last + 1
            past.application.start()
            wait_counted(past, last + 1, seconds=180)
            wrong = differences(past, truth(generator.world, range(last + 1)))
        finally:
            past.application.stop(timeout=30)
    assert set(wrong.values()) == {0}, wrong
    report = play.airflow.result(PITR, run_id, "finish")
    assert (report["savepoint_id"], report["point"]["as_of"]["moment"]) == (base.savepoint_id, generator.world.timestamp(last))
    assert play.airflow.result(PITR, run_id, "drain")["closed_cleanly"]
    assert (play.on.instances(), play.on.held(), outputs(play.on)) == (before, [], written)


def outputs(on: Stage) -> dict[TopicPartition, int]:
    """Where the outputs of the application in production end."""
    topics = on.recovery.cluster.describe_topics(on.recovery.config.topics.outputs)
    partitions = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
    return on.recovery.cluster.high_watermarks(partitions)


def here(on: Stage) -> set[str]:
    """Topics and groups of the cluster."""
    return {*on.recovery.cluster.topic_names(), *on.recovery.cluster.groups()}


def local_state(on: Stage) -> list[str]:
    """What a drill has left on the machine: files of its state, and processes."""
    place = on.stack.directory / "drill"
    config = in_sandbox(on.recovery.config, SandboxName(application=on.recovery.config.name))
    alive = [
        status.name for status in open_application(config.runs, config.application.id).status() if status.state is not InstanceState.GONE
    ]
    return [*alive, *(str(path) for path in (place / "state").glob("*"))]


STORY = (
    savepoints_are_taken,
    a_check_reads_every_file_and_names_a_damaged_one,
    a_savepoint_is_compacted_without_anybody_noticing,
    a_restore_takes_the_smaller_one,
    state_is_built_again_from_the_input_without_a_savepoint,
    a_drill_measures_a_whole_restore_and_production_never_notices,
    a_drill_that_fails_half_way_says_so_and_leaves_nothing_either,
    an_application_is_run_to_the_ends_of_its_input_and_is_down_again,
    a_second_application_is_brought_to_a_moment_of_the_first,
)
