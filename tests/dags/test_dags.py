"""The DAG files as the installed Airflow sees them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.db import initdb

PROJECT = Path(__file__).resolve().parents[2]
BACKUP, VERIFY, EXPIRE = (f"streams_{what}_order-processing" for what in ("backup", "verify", "expire"))
RESTORE = "streams_restore_full"
DESTRUCTIVE = {"stop_application", "prepare_topics", "load_records", "reset_consumer_group", "wipe_state", "start_application"}


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    initdb()
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_there_is_a_backup_and_an_audit_for_every_application_and_one_restore(dags: dict[str, Any]) -> None:
    assert set(dags) == {BACKUP, VERIFY, EXPIRE, RESTORE}


@pytest.mark.parametrize("dag_id", [BACKUP, VERIFY, EXPIRE, RESTORE])
def test_serialises_and_has_the_same_tasks_afterwards(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_ids) == set(dag.task_ids)


def test_backup_is_hourly_without_catchup_and_one_at_a_time(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("0 * * * *", False, 1)
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


def test_nothing_of_a_restore_happens_before_the_approval(dags: dict[str, Any]) -> None:
    dag = dags[RESTORE]
    before = dag.get_task("approve").get_flat_relative_ids(upstream=True)
    assert before == {"plan"}
    assert dag.get_task("approve").defaults == ["Reject"]


def test_steps_of_a_restore_come_in_the_order_that_is_safe(dags: dict[str, Any]) -> None:
    order = [
        "plan",
        "approve",
        "open_restore",
        "stop_application",
        "prepare_topics",
        "load_records",
        "check_load",
        "compare_records",
        "verify_changelogs",
        "reset_consumer_group",
        "wipe_state",
        "start_application",
        "await_recovered",
        "finish",
        "abandon",
    ]
    dag = dags[RESTORE]
    for earlier, later in itertools.pairwise(order):
        assert earlier in dag.get_task(later).get_flat_relative_ids(upstream=True), (earlier, later)


def test_destructive_tasks_are_never_retried_by_themselves(dags: dict[str, Any]) -> None:
    assert {name: dags[RESTORE].get_task(name).retries for name in DESTRUCTIVE} == dict.fromkeys(DESTRUCTIVE, 0)


@pytest.mark.parametrize(
    "conf", [{"application": "nobody"}, {"savepoint": "../../x"}, {"savepoint": "latest; rm -rf /"}, {"allow_ahead": "perhaps"}]
)
def test_params_that_do_not_fit_are_refused(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    param = dags[RESTORE].params.get_param(name)
    param.resolve()
    with pytest.raises((AirflowException, ValueError)):
        param.resolve(conf[name])


def test_an_audit_reads_before_it_concludes_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[VERIFY]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("0 3 * * 0", False, 1)
    assert dag.get_task("conclude").get_flat_relative_ids(upstream=True) == {"plan", "read_files"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()


@pytest.mark.parametrize("level", ["sample=10", "everything", "full; true"])
def test_levels_that_do_not_exist_never_become_a_run(dags: dict[str, Any], level: str) -> None:
    with pytest.raises((AirflowException, ValueError)):
        dags[VERIFY].params.get_param("level").resolve(level)


def test_an_expiry_is_shown_first_and_done_only_when_asked_for(dags: dict[str, Any]) -> None:
    dag = dags[EXPIRE]
    assert (dag.schedule, dag.max_active_runs, dag.params["apply"]) == (None, 1, False)
    assert dag.get_task("expire").upstream_task_ids == {"plan"}
    assert dag.get_task("expire").retries == 0
