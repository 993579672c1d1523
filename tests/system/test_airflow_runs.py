"""What happens in Airflow when something is wrong: a clear error, a failed run, and everything as it was before.

One stack for all; the tests follow each other as one story, each needing only what is asserted at its beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer

from embedded.airflow import Airflow
from embedded.airflow_client import AirflowClient
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION, Stack
from tests.system.stage import Stage, stage

BACKUP, VERIFY, RESTORE = f"streams_backup_{APPLICATION}", f"streams_verify_{APPLICATION}", "streams_restore_full"

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


class WithoutSpark(Stack):
    """A stack whose Airflow was never told where Spark is."""

    @property
    def variables(self) -> dict[str, str]:
        """All but Spark's connection."""
        return {name: value for name, value in super().variables.items() if name != "AIRFLOW_CONN_SPARK_DEFAULT"}


@dataclass(frozen=True)
class Play:
    """The stage with its Airflow."""

    on: Stage
    airflow: AirflowClient

    def run(self, dag_id: str, *, approve: bool = True, seconds: float = 400, **conf: object) -> tuple[str, dict[str, str], str]:
        """A run to its end: its state, its tasks' last states, and what its failed tasks logged."""
        tasks: dict[str, str] = {}
        run_id = self.airflow.trigger(dag_id, conf)
        state = self.airflow.wait(dag_id, run_id, seconds=seconds, told=tasks.__setitem__, approve=lambda _: approve)
        return state, tasks, self.airflow.failures(dag_id, run_id)


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    with stage(tmp_path_factory.mktemp("stage"), kind=WithoutSpark) as on:
        client = Airflow(on.stack, on.processes).start()
        yield Play(on, client)
        client.close()


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
    began = time.monotonic()
    run_id = play.airflow.trigger(BACKUP, {})
    assert play.airflow.wait(BACKUP, run_id, seconds=300, told=lambda *_: None) == "success"
    assert time.monotonic() - began < 60
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
