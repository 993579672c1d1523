"""Each DAG takes the steps of one workflow, all of them, in their order and as the workflow says: the command line takes the same ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb

from streams_recovery.workflows import maintenance, restore, rollout, sandbox, savepoint, scheduled_run
from streams_recovery.workflows.step import Step, When

PROJECT = Path(__file__).resolve().parents[2]
PLANNED = (restore.PLAN, restore.OPEN_RESTORE)
WORKFLOWS: dict[tuple[str, str], Sequence[Step]] = {
    ("streams_backup_order-processing", ""): savepoint.SAVEPOINT,
    ("streams_restore_full", ""): (*PLANNED, *restore.FROM_SAVEPOINT),
    ("streams_undo", ""): (*PLANNED, *restore.FROM_SAVEPOINT),
    ("streams_restore_rebuild", ""): (*PLANNED, *restore.REBUILD),
    ("streams_restore_pitr", ""): (*PLANNED, *restore.AS_OF_MOMENT),
    ("streams_clone", "clone."): (*PLANNED, *restore.FROM_SAVEPOINT),
    ("streams_clone", "cut_over."): (rollout.PLAN, *rollout.CUTOVER),
    ("streams_clone", "retire."): (rollout.PLAN_UPGRADE, *rollout.RETIREMENT, rollout.BRING_BACK),
    ("streams_clone", "upgrade."): (*PLANNED, *rollout.UPGRADE),
    ("streams_drill_order-processing", ""): (sandbox.CLEAR_DRILL, *PLANNED, *sandbox.DRILL, sandbox.CONCLUDE_DRILL),
    ("streams_reprocess_order-processing", ""): (
        sandbox.CLAIM,
        sandbox.CLEAR_INTERVAL,
        sandbox.PLAN_INTERVAL,
        restore.OPEN_RESTORE,
        *sandbox.INTERVAL,
        sandbox.CONCLUDE_INTERVAL,
    ),
    ("streams_verify_order-processing", ""): maintenance.CHECK,
    ("streams_expire_order-processing", ""): maintenance.EXPIRY,
    ("streams_compact_order-processing", ""): maintenance.COMPACTION,
    ("streams_append_quarantine", ""): (maintenance.PLAN_APPEND, *maintenance.APPEND),
    ("streams_run_order-processing", ""): (scheduled_run.START, scheduled_run.STOP),
}


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    initdb()
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def taken(dag: Any, group: str) -> list[Any]:
    """The tasks of a group that take steps, each behind all that it follows."""
    return [
        task
        for task in dag.topological_sort()
        if hasattr(task, "takes") and task.task_id.startswith(group) and "." not in task.task_id.removeprefix(group)
    ]


def test_every_dag_is_here(dags: dict[str, Any]) -> None:
    assert {dag_id for dag_id, _ in WORKFLOWS} == set(dags)
    for dag_id, dag in dags.items():
        groups = [group for known, group in WORKFLOWS if known == dag_id]
        steps = [task.task_id for task in dag.tasks if hasattr(task, "takes")]
        assert sorted(task.task_id for group in groups for task in taken(dag, group)) == sorted(steps)


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_a_dag_takes_the_steps_of_its_workflow(dags: dict[str, Any], dag_id: str, group: str) -> None:
    tasks, steps = taken(dags[dag_id], group), WORKFLOWS[dag_id, group]
    assert {task.task_id.removeprefix(group): task.takes for task in tasks} == {step.name: step for step in steps}


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_in_their_order(dags: dict[str, Any], dag_id: str, group: str) -> None:
    dag, steps = dags[dag_id], WORKFLOWS[dag_id, group]
    # The application is let go while its cut is copied, which the command line does one after the other.
    beside = {(savepoint.RESUME.name, savepoint.COPY_RECORDS.name)}
    for before, after in itertools.pairwise(steps):
        if (before.name, after.name) not in beside:
            task = dag.get_task(f"{group}{after.name}")
            assert f"{group}{before.name}" in task.get_flat_relative_ids(upstream=True), f"{after.name} does not wait for {before.name}"


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_and_as_the_workflow_says(dags: dict[str, Any], dag_id: str, group: str) -> None:
    for task in taken(dags[dag_id], group):
        step: Step = task.takes
        assert (task.retries, task.retry_delay, task.execution_timeout) == (step.retries, step.delay, step.limit), task.task_id
        always = task.is_teardown or task.trigger_rule == "all_done"
        assert always == (step.when is not When.SUCCESS), task.task_id
        assert getattr(task, "results", {}) == {
            need.name: f"{{{{ ti.xcom_pull(task_ids='{group}{need.name}') | tojson }}}}" for need in step.needs
        }, task.task_id


@pytest.mark.parametrize(("dag_id", "group"), WORKFLOWS)
def test_what_a_step_needs_was_taken_before_it(dag_id: str, group: str) -> None:
    steps = WORKFLOWS[dag_id, group]
    for number, step in enumerate(steps):
        assert {need.name for need in step.needs} <= {before.name for before in steps[:number]}, step.name
