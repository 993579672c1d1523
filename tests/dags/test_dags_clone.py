"""The DAG that runs a new version beside the old one: one step is chosen, shown and approved."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from tests.support.airflow.parsed_dags import CLONE, check_order, rendered

pytestmark = pytest.mark.usefixtures("a_clone")


def test_one_step_of_a_clone_is_chosen_and_each_is_shown_to_a_person_before_anything_happens(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    choose = dag.get_task("choose")
    assert choose.first_tasks == {
        "clone": "clone.plan",
        "cut_over": "cut_over.plan",
        "roll_back": "cut_over.plan",
        "offline_upgrade": "retire.plan",
    }
    assert set(dag.params.get_param("step").schema["enum"]) == set(choose.first_tasks)
    assert choose.downstream_task_ids == set(choose.first_tasks.values())
    for group in ("clone", "cut_over", "retire"):
        assert dag.get_task(f"{group}.approve").get_flat_relative_ids(upstream=True) == {"choose", f"{group}.plan"}
        assert dag.get_task(f"{group}.approve").defaults == ["Reject"]
    others = {"choose", *choose.first_tasks.values()} | {f"{group}.approve" for group in ("clone", "cut_over", "retire")}
    for task in dag.tasks:
        if task.task_id not in others:
            above = {name for name in task.get_flat_relative_ids(upstream=True) if name.endswith(".approve")}
            assert above, f"{task.task_id} would be done before anybody has agreed"


def test_a_failed_cut_over_fails_its_run(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    assert {dag.get_task(f"cut_over.{name}").retries for name in ("stop", "transfer_outputs", "start_live")} == {0}
    assert dag.get_task("cut_over.abandon").is_teardown
    assert not dag.get_task("cut_over.abandon").on_failure_fail_dagrun, "else it would hide what failed"


@pytest.mark.parametrize("step", ["cut_over", "roll_back"])
def test_what_a_person_chose_reaches_the_cut_over(dags: dict[str, Any], step: str) -> None:
    for task_id in ("cut_over.plan", "cut_over.open"):
        asked = rendered(dags[CLONE], task_id, step=step).request
        assert (asked.step, asked.reason, asked.restore_first) == (step, "", False)
        asked = rendered(dags[CLONE], task_id, step=step, reason="why", restore_first=True).request
        assert (asked.step, asked.reason, asked.restore_first) == (step, "why", True)


def test_an_upgrade_brings_the_old_application_back_last_whatever_failed(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    order = ["retire.plan", "retire.approve", "retire.begin", "retire.publish", "upgrade.plan", "upgrade.open_restore", "upgrade.abandon"]
    check_order(dag, [*order, "retire.bring_back"])
    back = dag.get_task("retire.bring_back")
    assert (back.is_teardown, back.retries, back.downstream_task_ids) == (True, 3, set())
    assert "retire.finish" in back.get_flat_relative_ids(upstream=True), "it needs the lock that the savepoint gives back"
    assert dag.get_task("retire.begin").mode == "stop"
    assert dag.get_task("upgrade.open_restore").task_type == "OpenUpgradeOperator", (
        "nobody is asked there, so what is over is not begun again"
    )
    assert "resume" not in {name.rpartition(".")[2] for name in dag.task_ids}, "it stays down"
    old = {task.task_id for task in dag.tasks if getattr(task, "application_name", "").startswith("{{ ti.")}
    assert old == {f"retire.{name}" for name in ("begin", "capture_cut", "copy_records", "publish", "finish")}


@pytest.mark.parametrize("conf", [{"step": "cutover"}, {"application": "nobody"}, {"savepoint": "before:latest"}])
def test_what_is_no_step_of_a_clone_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[CLONE].params.get_param(name).resolve(conf[name])
