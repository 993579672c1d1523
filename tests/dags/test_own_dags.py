"""The page for people who write DAGs of their own: its example is a DAG, and it names every operator."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.db import initdb

from streams_recovery.core.kafka_types import Consistency, Profile
from streams_recovery.operations.savepoint import PublishedSavepoint
from streams_recovery.operators.base import savepoints_of
from streams_recovery.operators.state import compacted_facts, restore_facts, savepoint_facts
from streams_recovery.workflows import savepoint
from tests.support.airflow.operators import operator_classes

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "own-dags.md").read_text()
PUBLISHED = PublishedSavepoint(
    application_id="orders",
    replaces=None,
    run_id="run",
    requested_by="airflow",
    savepoint_id="20261121T000000Z-0000000001",
    manifest_key="manifest",
    consistency=Consistency.EXACT,
    captured_at=1,
    parent_id=None,
    records=7,
    new_records=5,
    fetched=5,
    tail_records=0,
    files=1,
    topics=1,
    warnings=(),
    profile=Profile.FULL,
    survives_cluster_loss=True,
)


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
    assert {task.takes for task in dag.tasks} - {dag.get_task("stop").takes} == set(savepoint.SAVEPOINT.all_steps)


def test_its_tasks_come_behind_those_whose_results_they_need(dag: Any) -> None:
    for task in dag.tasks:
        before = task.get_flat_relative_ids(upstream=True)
        assert {need.name for need in task.takes.needed} <= before, task.task_id


def test_the_application_is_stopped_only_once_the_savepoint_exists_and_the_lock_goes_back_last(dag: Any) -> None:
    assert dag.get_task("stop").upstream_task_ids == {"publish", "resume"}
    assert dag.get_task("finish").get_flat_relative_ids(upstream=True) == {task.task_id for task in dag.tasks} - {"finish"}
    assert {task.task_id for task in dag.tasks if task.is_teardown} == {"resume", "finish"}
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["begin"]


def test_every_operator_is_on_the_page_with_its_task_and_what_it_needs() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w, ]+) \|", PAGE, re.MULTILINE)
    found = {name: (task, () if needs == "nothing" else tuple(needs.split(", "))) for name, task, needs in rows}
    assert found == {each.__name__: (each.takes.name, tuple(need.name for need in each.takes.needed)) for each in operator_classes()}


def test_the_example_on_assets_runs_after_each_savepoint(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    initdb()
    page = (PROJECT / "docs" / "airflow.md").read_text()
    [example] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    file = tmp_path_factory.mktemp("dags") / "count_savepoints.py"
    file.write_text(example)
    bag = DagBag(str(file))
    assert bag.import_errors == {}
    dag = bag.dags["count_savepoints"]
    asset = savepoints_of("order-processing")
    assert dag.timetable.asset_condition == asset
    facts = savepoint_facts(PUBLISHED)
    events = {asset: [SimpleNamespace(extra=facts), SimpleNamespace(extra={"kind": "compacted"})]}
    dag.get_task("tell").python_callable(triggering_asset_events=events)
    assert capsys.readouterr().out.splitlines()[-1].split() == [PUBLISHED.savepoint_id, "exact", "5"]


def test_the_page_names_every_fact_of_an_event() -> None:
    page = (PROJECT / "docs" / "airflow.md").read_text().split("## Assets and lineage")[1].split("```")[0]
    rows = [
        set(re.findall(r"`(\w+)`", row.split("|")[3])) - {"savepoint", "compacted", "restore"}
        for row in page.splitlines()
        if row.startswith("| `")
    ]
    assert rows == [set(savepoint_facts(PUBLISHED)), *(facts(source) for source in (compacted_facts, restore_facts))]


def facts(source: Any) -> set[str]:
    """The names of the facts that a function gives."""
    return set(re.findall(r'^        "(\w+)":', inspect.getsource(source), re.MULTILINE))
