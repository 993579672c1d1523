"""The DAG that takes savepoints: the application goes on whatever becomes of the copy."""

from __future__ import annotations

from typing import Any

from streams_recovery.config.schedules import plain
from tests.support.airflow.parsed_dags import BACKUP, NAME


def test_backup_is_hourly_without_catchup_and_one_at_a_time(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (plain("H * * * *", NAME, "backup"), False, 1)
    assert dag.dagrun_timeout is None, "a timeout of the run would skip the teardown that brings the application back"


def test_application_is_let_go_without_waiting_for_spark(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    assert "copy_records" not in dag.get_task("resume").get_flat_relative_ids(upstream=True)
    assert dag.get_task("resume").is_teardown
    assert dag.get_task("resume").on_failure_fail_dagrun


def test_guard_and_lock_go_back_last_and_a_failed_copy_fails_the_run(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    finish = dag.get_task("finish")
    assert finish.is_teardown
    assert finish.on_failure_fail_dagrun
    assert {"resume", "publish"} <= finish.get_flat_relative_ids(upstream=True)
    # The only leaf that is no teardown: it is what a failed copy fails.
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids and not task.is_teardown}
    assert leaves == {"report"}
    assert "copy_records" in dag.get_task("report").get_flat_relative_ids(upstream=True)
