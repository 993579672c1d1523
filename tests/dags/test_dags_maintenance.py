"""The DAGs that check, expire and compact, and the one that runs an application on a schedule."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.definitions.timetables.simple import ContinuousTimetable
from airflow.sdk.exceptions import AirflowException

from streams_recovery.config.schedules import plain
from tests.support.airflow.parsed_dags import ARCHIVE, COMPACT, DESTRUCTIVE, EXPIRE, NAME, RUN, VERIFY


def test_a_check_reads_before_it_concludes_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[VERIFY]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (plain("H 3 * * 0", NAME, "check"), False, 1)
    assert dag.get_task("conclude").get_flat_relative_ids(upstream=True) == {"plan", "read_files"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()


def test_an_application_that_was_started_for_a_run_is_stopped_whatever_becomes_of_it(dags: dict[str, Any]) -> None:
    dag = dags[RUN]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    stop = dag.get_task("stop_application")
    assert (stop.is_teardown, stop.on_failure_fail_dagrun, stop.retries) == (True, True, 5)
    assert dag.get_task("start_application").is_setup
    assert dag.get_task("await_ends").upstream_task_ids == {"start_application"}
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids and not task.is_teardown}
    assert leaves == {"ends_reached"}, "a waiting that failed fails the run, which a stop that succeeds would hide"


def test_archiving_goes_on_for_ever_in_one_run_behind_the_other_and_gives_up_after_failures_in_a_row(dags: dict[str, Any]) -> None:
    dag = dags[ARCHIVE]
    assert (dag.max_active_runs, dag.catchup, dag.max_consecutive_failed_dag_runs) == (1, False, 5)
    assert isinstance(dag.timetable, ContinuousTimetable)
    for task in dag.tasks:
        assert (task.retry_exponential_backoff, task.retry_delay, task.max_retry_delay) == (
            True,
            timedelta(seconds=5),
            timedelta(minutes=1),
        )
    job = dag.get_task("archive_inputs")
    assert dag.get_task("begin").retries == job.retries, "a store that does not answer for minutes is no reason to pause the DAG"
    assert job.retries * job.max_retry_delay > job.execution_timeout > timedelta(days=1), (
        "what fails is tried again until the next run takes over"
    )
    assert set(dag.task_ids) & DESTRUCTIVE == set()


@pytest.mark.parametrize("level", ["sample=10", "everything", "full; true"])
def test_levels_that_do_not_exist_never_become_a_run(dags: dict[str, Any], level: str) -> None:
    with pytest.raises((AirflowException, ValueError)):
        dags[VERIFY].params.get_param("level").resolve(level)


def test_an_expiry_is_shown_first_and_announced_before_it_deletes(dags: dict[str, Any]) -> None:
    dag = dags[EXPIRE]
    assert (dag.schedule, dag.max_active_runs, dag.params["apply"]) == (plain("H 2 * * *", NAME, "retention"), 1, "after_days")
    assert dag.get_task("expire").upstream_task_ids == {"plan"}
    assert dag.get_task("expire").retries == 0


def test_small_files_are_merged_before_anything_expires_and_a_merge_that_fails_fails_the_run_and_not_the_expiry(
    dags: dict[str, Any],
) -> None:
    dag = dags[EXPIRE]
    plan, merging = dag.get_task("plan"), ("plan_merge", "merge_files", "publish_merged")
    assert plan.get_flat_relative_ids(upstream=True) == set(merging)
    assert plan.trigger_rule == "all_done", "whether they were skipped, or failed"
    assert {dag.get_task(name).trigger_rule for name in (*merging, "expire", "merged")} == {"all_success"}
    assert dag.get_task("merged").upstream_task_ids == {"publish_merged"}
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids}
    assert leaves == {"expire", "merged"}, "a merge that failed fails the run, which an expiry that succeeds would hide"
    assert (dag.get_task("plan_merge").apply, dag.get_task("expire").apply) == ("{{ params.apply }}",) * 2


def test_a_compaction_publishes_only_what_its_job_has_proven_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[COMPACT]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    assert dag.get_task("publish").get_flat_relative_ids(upstream=True) == {"plan", "compact_records"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("savepoint").resolve("all")
