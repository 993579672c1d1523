"""What happens in Airflow when something is wrong: a clear error, a failed run, and everything as it was before.

One stack for all; the tests follow each other as one story, each needing only what is asserted at its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer

from embedded.airflow import Airflow
from embedded.applications import PAST, PAST_TOPICS, Applications
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery import drills, restores
from streams_recovery.application.factory import open_application
from streams_recovery.application.port import InstanceState
from streams_recovery.cli.connections import EnvironmentConnections
from streams_recovery.config.drilling import drilled
from streams_recovery.core.manifest import Manifest
from streams_recovery.core.model import TopicPartition
from streams_recovery.core.names import internal_role
from streams_recovery.waiting import poll
from streams_recovery.workbench import open_workbench
from tests.system.listening import Listening
from tests.system.playing import Play
from tests.system.stage import Stage, stage

BACKUP, VERIFY, COMPACT, DRILL, RUN = (f"streams_{what}_{APPLICATION}" for what in ("backup", "verify", "compact", "drill", "run"))
RESTORE, UNDO, REBUILD = "streams_restore_full", "streams_undo", "streams_restore_rebuild"
PITR = "streams_restore_pitr"

pytestmark = [pytest.mark.system, pytest.mark.timeout(2_400)]


class WithoutSpark(Applications):
    """A stack whose Airflow was never told where Spark is."""

    @property
    def variables(self) -> dict[str, str]:
        """All but Spark's connection."""
        return {name: value for name, value in super().variables.items() if name != "AIRFLOW_CONN_SPARK_DEFAULT"}


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), kind=WithoutSpark) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


@pytest.fixture(scope="module", autouse=True)
def listening(play: Play) -> Iterator[Listening]:
    with Listening(play.on.processes, play.on.stack.directory) as found:
        yield found


def test_a_restore_without_any_savepoint_says_so(play: Play) -> None:
    before = play.on.instances()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "order-processor has no exact savepoint" in failures
    assert "take one first" in failures
    assert play.on.instances() == before
    assert play.on.held() == []


def test_params_that_do_not_fit_never_become_a_run(play: Play) -> None:
    for conf in ({"application": "nobody"}, {"application": APPLICATION, "savepoint": "../../x"}):
        with pytest.raises(Exception, match="was not triggered"):
            play.airflow.trigger(RESTORE, conf)


def test_a_backup_without_spark_fails_and_lets_the_application_go(play: Play) -> None:
    before = play.on.instances()
    state, tasks, failures = play.run(BACKUP)
    assert state == "failed"
    assert {name: tasks[name] for name in ("capture_cut", "resume", "copy_records", "finish")} == {
        "capture_cut": "success",
        "resume": "success",
        "copy_records": "failed",
        "finish": "success",
    }
    assert tasks["publish"] == tasks["report"] == "upstream_failed"
    assert "spark_default" in failures
    assert play.on.await_running() == before
    assert play.on.held() == []
    assert play.on.bench.savepoints.ids() == []


def test_a_backup_succeeds_once_the_connection_is_there(play: Play) -> None:
    before = play.on.instances()
    play.airflow.add_connection("spark_default", "spark", "local[2]")
    state, _, failures = play.run(BACKUP)
    assert (state, failures) == ("success", "")
    assert len(play.on.bench.savepoints.ids()) == 1
    assert play.on.await_running() == before
    assert play.on.held() == []


def test_a_savepoint_of_an_idle_application_needs_no_spark_and_no_files(play: Play) -> None:
    segments = sorted((play.on.stack.directory / "repository" / "order-processor" / "segments").rglob("*"))
    run_id = play.succeed(BACKUP)
    assert play.airflow.result(BACKUP, run_id, "copy_records") == {"result_key": None, "ranges": 0, "offsets": 0}
    summary = play.airflow.result(BACKUP, run_id, "publish")
    assert (summary["new_records"], summary["fetched"], summary["consistency"]) == (0, 0, "exact")
    assert summary["records"] > 0
    assert sorted((play.on.stack.directory / "repository" / "order-processor" / "segments").rglob("*")) == segments


def test_an_audit_reads_every_file_and_names_a_damaged_one(play: Play) -> None:
    state, _, failures = play.run(VERIFY, level="full")
    assert (state, failures) == ("success", "")
    manifest = play.on.bench.savepoints.latest()
    assert manifest is not None
    tp, file = next(iter(manifest.files()))
    path = play.on.stack.directory / "repository" / file.key
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    try:
        state, tasks, failures = play.run(VERIFY, level="full")
    finally:
        path.write_bytes(whole)
    assert (state, tasks["conclude"]) == ("failed", "failed")
    assert file.key in failures
    assert f"{tp}, offsets" in failures


def test_a_savepoint_is_reduced_without_anybody_noticing(play: Play) -> None:
    before, source = play.on.instances(), play.on.bench.savepoints.latest()
    assert source is not None
    run_id = play.succeed(COMPACT, reason="smaller")
    done = play.airflow.result(COMPACT, run_id, "publish")
    reduced = play.on.bench.savepoints.latest()
    assert reduced is not None
    assert (done["savepoint_id"], done["source_id"]) == (reduced.savepoint_id, source.savepoint_id)
    assert reduced.replaces == source.savepoint_id
    assert (reduced.captured_at, reduced.committed()) == (source.captured_at, source.committed())
    assert done["keys_compared"] > 0
    assert done["rows_after"] < done["rows_before"] / 2
    versions = "order-processor-order-versions-changelog"
    assert "every row counts" in done["stays"][versions]
    assert reduced.topic(versions) == source.topic(versions)
    assert (play.on.instances(), play.on.held()) == (before, [])


def test_a_restore_onto_living_state_names_topics_and_counts(play: Play) -> None:
    before, topics = play.on.instances(), play.on.internal_topics()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "order-processor-order-totals-changelog (" in failures
    assert "offsets)" in failures
    assert play.on.instances() == before
    assert play.on.internal_topics() == topics


def test_a_rejected_restore_leaves_everything_as_it_was(play: Play) -> None:
    destroy(play.on.bench)
    state, tasks, _ = play.run(RESTORE, application=APPLICATION, approve=False)
    assert (state, tasks["plan"], tasks["approve"]) == ("failed", "success", "failed")
    assert "open_restore" not in tasks or tasks["open_restore"] == "upstream_failed"
    assert play.on.internal_topics() == []
    assert play.on.held() == []


def test_a_member_nobody_can_stop_is_named_and_stops_the_restore(play: Play) -> None:
    stranger = Consumer(
        {
            "bootstrap.servers": play.on.stack.bootstrap,
            "group.id": play.on.bench.application_id,
            "client.id": "somebody-else",
            "log_level": 0,
        }
    )
    try:
        stranger.subscribe(["orders"])
        stranger.poll(15)
        state, tasks, failures = play.run(RESTORE, application=APPLICATION)
    finally:
        stranger.close()
    assert (state, tasks["stop_application"]) == ("failed", "failed")
    assert "somebody-else" in failures
    assert play.on.internal_topics() == []
    assert play.on.held() == []


def test_after_all_that_the_restore_succeeds(play: Play) -> None:
    state, _, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, failures) == ("success", "")
    assert len(play.on.internal_topics()) == 16
    assert set(play.on.await_running()) == {"order-processor-1", "order-processor-2"}
    assert play.on.held() == []
    newest = play.on.bench.savepoints.latest()
    assert newest is not None
    assert newest.replaces is not None, "it came back from a reduced savepoint"
    report, page = restores.evidence(play.on.bench)
    assert (report.savepoint_id, report.verdict, report.rows) == (newest.savepoint_id, restores.Verdict.EQUAL, sum_of(newest))
    assert len(report.topics) == 16
    assert "**Equal.**" in page
    answered = {store.store: store for store in report.asked}
    assert set(answered) == {"order-totals", "enriched-orders", "region-totals", "product-sales", "latest-orders"}
    assert all(store.equal == store.sampled > 0 for store in answered.values()), answered
    wrong = differences(play.on.bench, truth(play.on.generator.world, range(play.on.generator.sent)))
    assert set(wrong.values()) == {0}, wrong


def test_living_state_is_replaced_only_when_the_application_id_was_typed(play: Play) -> None:
    before, topics = play.on.instances(), play.on.internal_topics()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION, replace=True, confirm="order-processing")
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "needs the application id order-processor typed to confirm it, not 'order-processing'" in failures
    assert (play.on.instances(), play.on.internal_topics()) == (before, topics)


# Six minutes; the demonstration, which is played each time, undoes a restore too.
@pytest.mark.deep
def test_a_restore_over_living_state_can_be_undone(play: Play) -> None:
    bench, generator = play.on.bench, play.on.generator
    generator.feed(1_000)
    wait_counted(bench, generator.acknowledged, seconds=180)
    living = bench.cluster.describe_topics(play.on.internal_topics())
    chosen = {"application": APPLICATION, "confirm": bench.application_id}
    run_id = play.succeed(RESTORE, approve=lambda body: "**Save**" in body, replace=True, **chosen)
    kept = play.airflow.result(RESTORE, run_id, "keep_state")
    assert kept["consistency"] == "exact"
    safety = bench.safety.read(kept["savepoint_id"])
    assert {topic.name: topic.topic_id for topic in safety.topics if topic.role.internal} == {
        name: found.topic_id for name, found in living.items()
    }
    assert bench.safety.ids() == [kept["savepoint_id"]]

    run_id = play.succeed(UNDO, **chosen)
    verified = play.airflow.result(UNDO, run_id, "verify_changelogs")
    assert verified["rows_compared"] == sum(topic.rows for topic in safety.topics if topic.role.internal)
    assert play.airflow.result(UNDO, run_id, "finish")["savepoint_id"] == kept["savepoint_id"]
    assert len(bench.safety.ids()) == 2, "an undo can be undone"
    play.on.await_running()
    wrong = differences(bench, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


def test_state_is_built_again_from_the_input_without_a_savepoint(play: Play) -> None:
    bench, generator = play.on.bench, play.on.generator
    before = {name: found.topic_id for name, found in bench.cluster.describe_topics(play.on.internal_topics()).items()}
    deleted = [f"| {name} |" for name in before]
    run_id = play.succeed(
        REBUILD,
        approve=lambda body: all(row in body for row in deleted),
        application=APPLICATION,
        replace=True,
        confirm=bench.application_id,
    )
    assert set(play.airflow.result(REBUILD, run_id, "verify_cleared")["gone"]) == set(before)
    report = play.airflow.result(REBUILD, run_id, "finish")
    assert report["savepoint_id"] is None
    assert report["safety_savepoint"] == bench.safety.ids()[-1]
    after = {name: found.topic_id for name, found in bench.cluster.describe_topics(play.on.internal_topics()).items()}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values()), "every internal topic is another one"
    generator.feed(500)
    wait_counted(bench, generator.acknowledged, seconds=180)
    wrong = differences(bench, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


def test_a_drill_measures_a_whole_restore_and_production_never_notices(play: Play) -> None:
    bench, generator = play.on.bench, play.on.generator
    generator.feed(1_000)
    wait_counted(bench, generator.acknowledged, seconds=180)
    assert set(differences(bench, truth(generator.world, range(generator.sent))).values()) == {0}
    before, ends, cluster = play.on.await_running(), outputs(play.on), here(play.on)
    savepoint = bench.savepoints.latest()
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
    assert {store["store"] for store in recovered["asked"]} >= {"order-totals", "latest-orders", "enriched-orders"}
    assert [store for store in recovered["asked"] if store["different"]] == []
    removed = play.airflow.result(DRILL, run_id, "remove")
    assert len(removed["topics"]) == 16 + 3
    [entry] = drills.drills(bench)
    assert (entry.succeeded, entry.savepoint_id) == (True, savepoint.savepoint_id)
    assert entry.rows == sum_of(savepoint)
    assert entry.keys_compared > 0
    assert entry.rpo_seconds == pytest.approx((entry.began_at - savepoint.captured_at) / 1000, abs=0.1)
    assert entry.rto_seconds is not None
    assert 0 < entry.rto_seconds < 400
    assert play.on.held() == []


def test_a_drill_that_fails_half_way_says_so_and_leaves_nothing_either(play: Play) -> None:
    bench = play.on.bench
    before, ends, cluster = play.on.instances(), outputs(play.on), here(play.on)
    savepoint = bench.savepoints.latest()
    assert savepoint is not None
    file = next(file for tp, file in savepoint.files() if internal_role(tp.topic, bench.application_id))
    path = play.on.stack.directory / "repository" / file.key
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    try:
        state, tasks, _ = play.run(DRILL)
    finally:
        path.write_bytes(whole)
    assert (state, tasks["load_records"], tasks["remove"], tasks["conclude"]) == ("failed", "failed", "success", "failed")
    assert (outputs(play.on), play.on.instances(), here(play.on), local_state(play.on)) == (ends, before, cluster, [])
    assert [(entry.succeeded, entry.outcome) for entry in drills.drills(bench)][1:] == [(False, "failed after created")]
    assert play.on.held() == []


def sum_of(savepoint: Manifest) -> int:
    """Records of its internal topics."""
    return sum(topic.rows for topic in savepoint.topics if topic.role.internal)


def outputs(on: Stage) -> dict[TopicPartition, int]:
    """Where the outputs of the application in production end."""
    topics = on.bench.cluster.describe_topics(on.bench.config.topics.outputs)
    partitions = [TopicPartition(name, number) for name, found in topics.items() for number in range(found.partitions)]
    return on.bench.cluster.high_watermarks(partitions)


def here(on: Stage) -> set[str]:
    """Topics and groups of the cluster."""
    return {*on.bench.cluster.topic_names(), *on.bench.cluster.groups()}


def local_state(on: Stage) -> list[str]:
    """What a drill has left on the machine: files of its state, and processes."""
    place = on.stack.directory / "drill"
    config = drilled(on.bench.config)
    alive = [
        status.name for status in open_application(config.runs, config.application.id).status() if status.state is not InstanceState.GONE
    ]
    return [*alive, *(str(path) for path in (place / "state").glob("*"))]


def test_an_application_is_run_to_the_ends_of_its_input_and_is_down_again(play: Play) -> None:
    bench, generator = play.on.bench, play.on.generator
    state, tasks, failures = play.run(RUN)
    assert (state, tasks["start_application"]) == ("failed", "failed")
    assert "runs already: order-processor-1" in failures
    assert play.on.instances() == play.on.await_running()

    assert bench.application.stop(timeout=60).gone
    generator.feed(500)
    run_id = play.succeed(RUN)
    report = play.airflow.result(RUN, run_id, "stop_application")
    assert report["behind"] == {}
    assert sum(count for name, count in report["processed"].items() if name.startswith("orders ")) >= 500
    assert {status.state.value for status in bench.application.status()} == {"gone"}
    run_id = play.succeed(RUN)
    assert play.airflow.result(RUN, run_id, "start_application")["instances"] == [], "nothing new, nothing started"

    bench.application.start()
    play.on.await_running()
    wait_counted(bench, generator.acknowledged, seconds=180)
    wrong = differences(bench, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


@pytest.mark.timeout(3_600)
def test_a_second_application_is_brought_to_a_moment_of_the_first(play: Play) -> None:
    stack, bench, generator = play.on.stack, play.on.bench, play.on.generator
    assert isinstance(stack, Applications)
    base = bench.savepoints.latest()
    assert base is not None
    generator.feed(600)
    last = generator.sent - 250
    wait_counted(bench, generator.acknowledged, seconds=180)
    play.succeed(BACKUP)
    before, written = play.on.instances(), outputs(play.on)

    at = datetime.fromtimestamp(generator.world.timestamp(last) / 1000, UTC).isoformat(timespec="milliseconds")
    state, _, failures = play.run(PITR, application=APPLICATION, as_of=at)
    assert (state, "cannot be brought to a moment in place" in failures) == ("failed", True)
    with open_workbench(stack.named(PAST), EnvironmentConnections({**os.environ, **stack.variables})) as past:
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
    assert play.airflow.result(PITR, run_id, "stop_at_ends")["closed_cleanly"]
    assert (play.on.instances(), play.on.held(), outputs(play.on)) == (before, [], written)


def test_nothing_of_all_that_listened_on_another_address_than_loopback(play: Play, listening: Listening) -> None:
    assert poll(lambda: play.on.stack.ports.airflow in listening.ports or None, seconds=60)
    assert (listening.elsewhere(), play.on.stack.ports.broker in listening.ports) == ({}, True)
