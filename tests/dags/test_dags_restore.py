"""The DAGs that bring an application back: nothing before the approval, and only what was shown; and the one that tries it in another application."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from streams_recovery.config.loader import load_application
from streams_recovery.config.schedules import plain
from streams_recovery.core.jobs.spec import CutBy
from streams_recovery.core.offsets.strategies import EXACT
from streams_recovery.core.restore.point_in_time import AsOf
from streams_recovery.core.words import parse_moment
from streams_recovery.operations.restore.strategies import Rebuild
from tests.support.airflow.parsed_dags import (
    APPEND,
    CLONE,
    DESTRUCTIVE,
    DRILL,
    MOMENT,
    NAME,
    PITR,
    REBUILD,
    REPROCESS,
    RESTORE,
    RESTORE_DAGS,
    TOPICS,
    UNDO,
    UPGRADE,
    check_order,
    rendered,
    request,
)

pytestmark = pytest.mark.usefixtures("a_clone")


@pytest.mark.parametrize("dag_id", RESTORE_DAGS)
def test_a_dag_asks_for_the_strategy_that_names_it(dags: dict[str, Any], dag_id: str) -> None:
    assert {type(request(dags[dag_id], task_id)) for task_id in ("plan", "open_restore")} == {RESTORE_DAGS[dag_id]}


@pytest.mark.parametrize("dag_id", [*RESTORE_DAGS, APPEND])
def test_nothing_of_a_restore_happens_before_the_approval(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    before = dag.get_task("approve").get_flat_relative_ids(upstream=True)
    assert before == {"plan"}
    assert dag.get_task("approve").defaults == ["Reject"]


def test_a_rejection_is_final_and_an_approval_that_airflow_failed_is_asked_for_again(dags: dict[str, Any]) -> None:
    approve = rendered(dags[RESTORE], "approve")
    context = {"dag_run": SimpleNamespace(triggering_user_name=None, clear_number=0), "ti": SimpleNamespace(max_tries=3)}
    answer = {"params_input": {}, "responded_at": datetime.now(UTC), "responded_by_user": None}
    with pytest.raises(AirflowFailException, match="Nothing was changed"):
        approve.execute_complete(context, {"chosen_options": ["Reject"], **answer})
    assert approve.execute_complete(context, {"chosen_options": ["Approve"], **answer})["chosen_options"] == ["Approve"]
    assert approve.retries == 3


@pytest.mark.fault("F20")
@pytest.mark.parametrize("where", [DRILL, REPROCESS, *RESTORE_DAGS, "clone", "upgrade"])
def test_destructive_tasks_are_never_retried_by_themselves_but_a_load_goes_on(dags: dict[str, Any], where: str) -> None:
    dag_id, group = (where, "") if where in dags else (CLONE, f"{where}.")
    # Single topics come back without stopping or starting anything.
    names = set(DESTRUCTIVE) & set(dags[dag_id].task_ids) if where == TOPICS else set(DESTRUCTIVE)
    assert {"prepare_topics", "load_records", "reset_consumer_group"} <= names
    if where == UPGRADE:
        # It loads nothing; its way back does.
        group = "roll_back."
        assert {
            dags[dag_id].get_task(name).retries for name in ("stop_application", "check_version", "start_application", "watch_version")
        } == {0}
    retries = {name: dags[dag_id].get_task(f"{group}{name}").retries for name in names}
    assert retries == dict.fromkeys(names, 0) | {"load_records": 2}


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    ("dag_id", "task_id"),
    [
        *((dag_id, "abandon") for dag_id in RESTORE_DAGS),
        (CLONE, "clone.abandon"),
        (CLONE, "upgrade.abandon"),
    ],
)
def test_what_brings_the_application_back_is_tried_again(dags: dict[str, Any], dag_id: str, task_id: str) -> None:
    task = dags[dag_id].get_task(task_id)
    assert (task.is_teardown, task.retries) == (True, 3)


def test_which_savepoint_it_is_stays_the_same_from_the_plan_on(dags: dict[str, Any]) -> None:
    assert request(dags[UNDO], "plan", restore="latest").restore_id == "latest"
    assert isinstance(request(dags[REBUILD], "plan", savepoint="latest"), Rebuild)
    # A newer savepoint must not change what was planned.
    assert request(dags[DRILL], "open_restore").savepoint == "savepoint of plan"
    assert request(dags[CLONE], "clone.open_restore").savepoint == "savepoint of clone.plan"
    for task_id in ("upgrade.plan", "upgrade.open_restore"):
        assert request(dags[CLONE], task_id).savepoint == "id of retire.publish", "the one that it took itself"


@pytest.mark.parametrize(
    ("dag_id", "task_id", "plan"),
    [
        (RESTORE, "open_restore", "plan"),
        (DRILL, "open_restore", "plan"),
        (CLONE, "clone.open_restore", "clone.plan"),
        (CLONE, "upgrade.open_restore", "upgrade.plan"),
        (CLONE, "cut_over.open", "cut_over.plan"),
        (APPEND, "open_append", "plan"),
    ],
)
def test_only_the_plan_that_was_shown_is_carried_out(dags: dict[str, Any], dag_id: str, task_id: str, plan: str) -> None:
    assert rendered(dags[dag_id], task_id).approved_hash == f"hash of {plan}"


def test_a_restore_to_a_moment_stops_at_the_ends_and_no_other_does(dags: dict[str, Any]) -> None:
    stop = dags[PITR].get_task("drain")
    assert (stop.upstream_task_ids, stop.downstream_task_ids) == ({"await_recovered"}, {"finish"})
    assert [dag_id for dag_id in (RESTORE, UNDO) if "drain" in dags[dag_id].task_ids] == []
    for task_id in ("plan", "open_restore"):
        asked = request(dags[PITR], task_id, as_of=MOMENT, by="position")
        assert asked.as_of == AsOf(moment=parse_moment(MOMENT), by=CutBy.POSITION)


def test_later_input_is_appended_once_after_the_approval_and_the_lock_goes_back(dags: dict[str, Any]) -> None:
    dag = dags[APPEND]
    check_order(dag, ["plan", "approve", "open_append"])
    assert dag.get_task("append_records").retries == 0
    assert dag.get_task("leave").is_teardown
    assert dag.get_task("open_append").is_setup
    assert dag.get_task("open_append").restore == "{{ ti.xcom_pull(task_ids='plan')['restore'] }}"
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("restore").resolve("../../x")


def test_a_drill_is_weekly_and_needs_nobody(dags: dict[str, Any]) -> None:
    dag = dags[DRILL]
    assert (dag.schedule.expression, dag.catchup, dag.max_active_runs) == (plain("H 4 * * 6", NAME, "drill"), False, 1)
    assert "approve" not in dag.task_ids
    assert set(dag.params) == {"savepoint"}, "what gives up a safeguard is no param"


def test_a_drill_has_the_tasks_of_a_restore_and_works_on_an_application_of_its_own(dags: dict[str, Any]) -> None:
    drill, restore = dags[DRILL], dags[RESTORE]
    own = {"clear", "plan", "open_restore", "place_records", "keep_placed", "remove", "conclude"}
    assert set(drill.task_ids) - own == set(restore.task_ids) - {"plan", "approve", "open_restore", "report", "abandon"}
    assert {task.application_name for task in drill.tasks} == {f"{NAME}:drill", NAME}
    assert [task.task_id for task in drill.tasks if task.application_name == NAME] == ["conclude"], (
        "only the history is the application's own"
    )
    for task_id in ("plan", "open_restore"):
        asked = request(drill, task_id)
        assert (asked.source, asked.offsets, asked.reason) == (load_application(NAME).application.id, EXACT, "drill")


def test_a_drill_is_removed_whatever_failed_and_its_last_task_fails_with_it(dags: dict[str, Any]) -> None:
    dag = dags[DRILL]
    remove, conclude = dag.get_task("remove"), dag.get_task("conclude")
    assert remove.is_teardown
    assert dag.get_task("open_restore").is_setup
    assert remove.retries == 3
    # The only leaf. It runs whatever became of the others, and it is what fails the run.
    assert {task.task_id for task in dag.tasks if not task.downstream_task_ids} == {"conclude"}
    assert (str(conclude.trigger_rule.value), conclude.is_teardown) == ("all_done", False)
