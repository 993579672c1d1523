"""A savepoint, what is refused, a restore and its undo by the real DAGs: a clear error and everything as it was, or everything right again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from embedded.airflow import Airflow
from embedded.applications import Applications
from embedded.demo.checks import differences, wait_counted
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION, Plain
from examples.order_processing.truth import truth
from streams_recovery.core.waiting import poll
from streams_recovery.operations import restore
from tests.support.stack.dag_runs import PATIENCE, Play, internal_rows
from tests.support.stack.listeners import Listening
from tests.support.stack.stage import stage
from tests.support.story import play_through

BACKUP, RESTORE, UNDO = f"streams_backup_{APPLICATION}", "streams_restore_full", "streams_undo"

pytestmark = [pytest.mark.system, pytest.mark.timeout(3_600)]


class WithoutSpark(Applications):
    """A stack whose Airflow was never told where Spark is, and where Spark does small jobs too."""

    def _configurations(self, first: Plain) -> dict[str, Plain]:
        first["spark"]["always"] = True
        return super()._configurations(first)

    @property
    def variables(self) -> dict[str, str]:
        """All but Spark's connection."""
        return {name: value for name, value in super().variables.items() if name != "AIRFLOW_CONN_SPARK_DEFAULT"}


@pytest.fixture
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), kind=WithoutSpark) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


@pytest.fixture
def listening(play: Play) -> Iterator[Listening]:
    with Listening(play.on.processes, play.on.stack.directory) as found:
        yield found


@pytest.mark.way("restore", "savepoint")
def test_an_application_is_saved_lost_and_restored(play: Play, listening: Listening) -> None:
    play_through(SHORT, play)
    only_on_loopback(play, listening)


@pytest.mark.deep
@pytest.mark.fault("F42", "F60")
def test_an_application_is_saved_lost_restored_and_taken_back(play: Play, listening: Listening) -> None:
    play_through(STORY, play)
    only_on_loopback(play, listening)


def a_restore_without_any_savepoint_says_so(play: Play) -> None:
    before = play.on.instances()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "order-processor has no exact savepoint" in failures
    assert "take one first" in failures
    assert play.on.instances() == before
    assert play.on.held() == []


def params_that_do_not_fit_never_become_a_run(play: Play) -> None:
    for conf in ({"application": "nobody"}, {"application": APPLICATION, "savepoint": "../../x"}):
        with pytest.raises(Exception, match="was not triggered"):
            play.airflow.trigger(RESTORE, conf)


def a_backup_without_spark_fails_and_lets_the_application_go(play: Play) -> None:
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
    assert play.on.recovery.savepoints.ids() == []


def a_backup_succeeds_once_the_connection_is_there(play: Play) -> None:
    before = play.on.instances()
    play.airflow.add_connection("spark_default", "spark", "local[2]")
    state, _, failures = play.run(BACKUP)
    assert (state, failures) == ("success", "")
    assert len(play.on.recovery.savepoints.ids()) == 1
    assert play.on.await_running() == before
    assert play.on.held() == []


def a_savepoint_of_an_idle_application_needs_no_spark_and_no_files(play: Play) -> None:
    segments = sorted((play.on.stack.directory / "repository" / "order-processor" / "segments").rglob("*"))
    run_id = play.succeed(BACKUP)
    copied = play.airflow.result(BACKUP, run_id, "copy_records")
    assert (copied["result"], copied["ranges"], copied["offsets"]) == (None, 0, 0)
    summary = play.airflow.result(BACKUP, run_id, "publish")
    assert (summary["new_records"], summary["fetched"], summary["consistency"]) == (0, 0, "exact")
    assert summary["records"] > 0
    assert sorted((play.on.stack.directory / "repository" / "order-processor" / "segments").rglob("*")) == segments


def a_restore_onto_living_state_names_topics_and_counts(play: Play) -> None:
    before, topics = play.on.instances(), play.on.internal_topics()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "order-processor-order-totals-changelog (" in failures
    assert "offsets)" in failures
    assert play.on.instances() == before
    assert play.on.internal_topics() == topics


def a_rejected_restore_leaves_everything_as_it_was(play: Play) -> None:
    destroy(play.on.recovery)
    state, tasks, _ = play.run(RESTORE, application=APPLICATION, approve=False)
    assert (state, tasks["plan"], tasks["approve"]) == ("failed", "success", "failed")
    assert "open_restore" not in tasks or tasks["open_restore"] == "upstream_failed"
    assert play.on.internal_topics() == []
    assert play.on.held() == []


def runs_that_wait_do_not_wait_for_each_other_and_an_early_answer_counts(play: Play) -> None:
    runs = [play.airflow.trigger(RESTORE, {"application": APPLICATION}) for _ in range(2)]

    def both_ask() -> bool | None:
        return True if all(play.airflow.tasks(RESTORE, run_id).get("approve") == "awaiting_input" for run_id in runs) else None

    assert poll(both_ask, seconds=PATIENCE, interval=0.5), "at Airflow's own heartbeat, which nothing here shortens"
    for run_id in runs:
        seen: dict[str, list[str]] = {}

        def told(task: str, state: str, seen: dict[str, list[str]] = seen) -> None:
            seen.setdefault(task, []).append(state)

        assert play.airflow.wait(RESTORE, run_id, seconds=PATIENCE, on_change=told, approve=lambda _: False) == "failed"
        assert seen["approve"][-1] == "failed"
        assert "up_for_retry" not in seen["approve"], "it was answered once"
        assert "The plan was rejected" in play.airflow.failures(RESTORE, run_id)


def a_member_nobody_can_stop_is_named_and_stops_the_restore(play: Play) -> None:
    stranger = Consumer(
        {
            "bootstrap.servers": play.on.stack.bootstrap,
            "group.id": play.on.recovery.application_id,
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
    assert (state, tasks["plan"]) == ("failed", "failed"), "before anybody is asked to approve, and before anything is stopped"
    assert "somebody-else" in failures
    assert play.on.internal_topics() == []
    assert play.on.held() == []


def after_all_that_the_restore_succeeds(play: Play) -> None:
    state, _, failures = play.run(RESTORE, application=APPLICATION)
    assert (state, failures) == ("success", "")
    assert len(play.on.internal_topics()) == 16
    assert set(play.on.await_running()) == {"order-processor-1", "order-processor-2"}
    assert play.on.held() == []
    newest = play.on.recovery.savepoints.latest()
    assert newest is not None
    report, page = restore.evidence(play.on.recovery)
    assert (report.savepoint_id, report.verdict, report.rows) == (newest.savepoint_id, restore.Verdict.EQUAL, internal_rows(newest))
    assert len(report.topics) == 16
    assert "**Equal.**" in page
    answered = {store.store: store for store in report.query_checks if store.sampled}
    assert set(answered) == {"order-totals", "enriched-orders", "region-totals", "product-sales", "latest-orders"}
    assert all(store.equal == store.sampled > 0 for store in answered.values()), answered
    wrong = differences(play.on.recovery, truth(play.on.generator.world, range(play.on.generator.sent)))
    assert set(wrong.values()) == {0}, wrong


def living_state_is_replaced_only_when_the_application_id_was_typed(play: Play) -> None:
    before, topics = play.on.instances(), play.on.internal_topics()
    state, tasks, failures = play.run(RESTORE, application=APPLICATION, replace=True, confirm="order-processing")
    assert (state, tasks["plan"]) == ("failed", "failed")
    assert "needs the application id order-processor typed to confirm it, not 'order-processing'" in failures
    assert (play.on.instances(), play.on.internal_topics()) == (before, topics)


def a_restore_over_living_state_can_be_undone(play: Play) -> None:
    recovery, generator = play.on.recovery, play.on.generator
    generator.feed(1_000)
    wait_counted(recovery, generator.acknowledged, seconds=180)
    living = recovery.cluster.describe_topics(play.on.internal_topics())
    chosen = {"application": APPLICATION, "confirm": recovery.application_id}
    run_id = play.succeed(RESTORE, approve=lambda body: "**Save**" in body, replace=True, **chosen)
    kept = play.airflow.result(RESTORE, run_id, "keep_state")
    assert kept["consistency"] == "exact"
    safety = recovery.safety.read(kept["savepoint_id"])
    assert {topic.name: topic.topic_id for topic in safety.topics if topic.role.internal} == {
        name: found.topic_id for name, found in living.items()
    }
    assert recovery.safety.ids() == [kept["savepoint_id"]]

    run_id = play.succeed(UNDO, **chosen)
    verified = play.airflow.result(UNDO, run_id, "verify_changelogs")
    assert verified["rows_compared"] == sum(topic.rows for topic in safety.topics if topic.role.internal)
    assert play.airflow.result(UNDO, run_id, "finish")["savepoint_id"] == kept["savepoint_id"]
    assert len(recovery.safety.ids()) == 2, "an undo can be undone"
    play.on.await_running()
    wrong = differences(recovery, truth(generator.world, range(generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert play.on.held() == []


def only_on_loopback(play: Play, listening: Listening) -> None:
    assert poll(lambda: play.on.stack.ports.airflow in listening.ports or None, seconds=60)
    assert (listening.elsewhere(), play.on.stack.ports.broker in listening.ports) == ({}, True)


STORY = (
    a_restore_without_any_savepoint_says_so,
    params_that_do_not_fit_never_become_a_run,
    a_backup_without_spark_fails_and_lets_the_application_go,
    a_backup_succeeds_once_the_connection_is_there,
    a_savepoint_of_an_idle_application_needs_no_spark_and_no_files,
    a_restore_onto_living_state_names_topics_and_counts,
    a_rejected_restore_leaves_everything_as_it_was,
    runs_that_wait_do_not_wait_for_each_other_and_an_early_answer_counts,
    a_member_nobody_can_stop_is_named_and_stops_the_restore,
    after_all_that_the_restore_succeeds,
    living_state_is_replaced_only_when_the_application_id_was_typed,
    a_restore_over_living_state_can_be_undone,
)

# What each run of the tests has of it.
SHORT = (
    a_restore_without_any_savepoint_says_so,
    a_backup_succeeds_once_the_connection_is_there,
    a_rejected_restore_leaves_everything_as_it_was,
    after_all_that_the_restore_succeeds,
)
