"""The DAG that tries a restore: in an application of its own, which is removed again."""

from __future__ import annotations

from typing import Any

import pytest

from streams_recovery.config.loader import load_application
from streams_recovery.config.schedules import plain
from streams_recovery.core.offsets.strategies import EXACT
from tests.support.airflow.parsed_dags import DRILL, NAME, RESTORE, request

pytestmark = pytest.mark.usefixtures("a_clone")


def test_a_drill_is_weekly_and_needs_nobody(dags: dict[str, Any]) -> None:
    dag = dags[DRILL]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (plain("H 4 * * 6", NAME, "drill"), False, 1)
    assert "approve" not in dag.task_ids
    assert set(dag.params) == {"savepoint"}, "what gives up a safeguard is no param"


def test_a_drill_has_the_tasks_of_a_restore_and_works_on_an_application_of_its_own(dags: dict[str, Any]) -> None:
    drill, restore = dags[DRILL], dags[RESTORE]
    own = {"clear", "plan", "open_restore", "remove", "conclude"}
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
