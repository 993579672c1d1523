"""The DAGs that take savepoints, check, expire and compact, and the one that runs an application on a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk.definitions.timetables.simple import ContinuousTimetable
from airflow.sdk.exceptions import AirflowException

from streams_recovery.config.schedules import plain
from streams_recovery.operations.compaction import How
from streams_recovery.operators.base import savepoints_of, too_late
from tests.support.airflow.parsed_dags import ARCHIVE, BACKUP, COMPACT, DESTRUCTIVE, EXPIRE, MIRROR, NAME, RUN, VERIFY


def test_a_check_reads_before_it_concludes_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[VERIFY]
    assert (dag.schedule.expression, dag.catchup, dag.max_active_runs) == (plain("H 3 * * 0", NAME, "check"), False, 1)
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
    assert (dag.schedule.expression, dag.max_active_runs, dag.params["apply"]) == (plain("H 2 * * *", NAME, "retention"), 1, "after_days")
    assert dag.get_task("expire").upstream_task_ids == {"plan"}
    assert dag.get_task("expire").retries == 0


def test_small_files_are_merged_before_anything_expires_and_a_merge_that_fails_fails_the_run_and_not_the_expiry(
    dags: dict[str, Any],
) -> None:
    dag = dags[EXPIRE]
    plan, merging = dag.get_task("plan"), ("merge.plan", "merge.write_files", "merge.publish")
    assert plan.get_flat_relative_ids(upstream=True) == set(merging)
    assert plan.trigger_rule == "all_done", "whether they were skipped, or failed"
    assert {dag.get_task(name).trigger_rule for name in (*merging, "expire", "merged")} == {"all_success"}
    assert dag.get_task("merged").upstream_task_ids == {"merge.publish"}
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids}
    assert leaves == {"expire", "merged"}, "a merge that failed fails the run, which an expiry that succeeds would hide"
    assert (dag.get_task("merge.plan").apply, dag.get_task("expire").apply) == ("{{ params.apply }}",) * 2


def test_a_second_place_is_filled_behind_each_savepoint_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[MIRROR]
    assert (dag.catchup, dag.max_active_runs, dag.task_ids) == (False, 1, ["mirror"])
    assert dag.timetable.asset_condition == savepoints_of(NAME)
    assert dag.get_task("mirror").retries == 2, "a store that does not answer for a while is no reason to fail"


def test_a_compaction_publishes_only_what_its_job_has_proven_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[COMPACT]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 32), "the lock keeps two of one application apart"
    assert dag.get_task("publish").get_flat_relative_ids(upstream=True) == {"plan", "write_files"}
    assert (dag.params["how"], dag.get_task("plan").how) == ("latest-per-key", "{{ params.how }}")
    assert {dag.params.get_param("how").resolve(how) for how in How} == {"latest-per-key", "small-files"}
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("how").resolve("smaller")
    assert set(dag.task_ids) & DESTRUCTIVE == set()
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("savepoint").resolve("all")


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


DUE = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOURLY = "0 * * * *"


@pytest.mark.fault("F20")
@pytest.mark.parametrize("schedule", [HOURLY, None])
@pytest.mark.parametrize("after", [timedelta(), timedelta(days=1)])
def test_a_backfill_takes_none_and_a_run_by_hand_always_does(schedule: str | None, after: timedelta) -> None:
    assert "backfill runs stand for the past" in str(too_late("backfill", DUE, schedule, DUE + after))
    assert too_late("manual", DUE, schedule, DUE + after) is None


@pytest.mark.fault("F20")
def test_a_scheduled_run_takes_one_until_the_next_is_due() -> None:
    assert too_late("scheduled", DUE, HOURLY, DUE + timedelta(minutes=59, seconds=59)) is None
    told = too_late("scheduled", DUE, HOURLY, DUE + timedelta(hours=1))
    assert told is not None
    assert "was due at 2026-11-21 12:00 UTC and the next one since 2026-11-21 13:00 UTC" in told
