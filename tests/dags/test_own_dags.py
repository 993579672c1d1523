"""The page for people who write DAGs of their own: its example is a DAG, and it names every operator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.db import initdb

from streams_recovery.workflows import savepoint
from tests.support.airflow.operators import operator_classes

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "own-dags.md").read_text()


@pytest.fixture(scope="module")
def dag(tmp_path_factory: pytest.TempPathFactory) -> Any:
    initdb()
    [example] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path_factory.mktemp("dags") / "deploy_orders.py"
    file.write_text(example)
    bag = DagBag(str(file))
    assert bag.import_errors == {}
    return bag.dags["deploy_orders"]


def test_the_example_is_a_dag_that_takes_a_savepoint_and_a_step_of_its_own(dag: Any) -> None:
    assert DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag)).task_ids
    assert {task.takes for task in dag.tasks} - {dag.get_task("stop").takes} == set(savepoint.SAVEPOINT)


def test_its_tasks_come_behind_those_whose_results_they_need(dag: Any) -> None:
    for task in dag.tasks:
        before = task.get_flat_relative_ids(upstream=True)
        assert {need.name for need in task.takes.needs} <= before, task.task_id


def test_the_application_is_stopped_only_once_the_savepoint_exists_and_the_lock_goes_back_last(dag: Any) -> None:
    assert dag.get_task("stop").upstream_task_ids == {"publish", "resume"}
    assert dag.get_task("finish").get_flat_relative_ids(upstream=True) == {task.task_id for task in dag.tasks} - {"finish"}
    assert {task.task_id for task in dag.tasks if task.is_teardown} == {"resume", "finish"}
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["begin"]


def test_every_operator_is_on_the_page_with_its_task_and_what_it_needs() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]+) \|", PAGE, re.MULTILINE)
    found = {name: (task, () if needs == "nothing" else tuple(needs.split(", "))) for name, task, needs in rows}
    assert found == {each.__name__: (each.takes.name, tuple(need.name for need in each.takes.needs)) for each in operator_classes()}
