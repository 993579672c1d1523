"""The monitor's DAG: which applications are due, and what becomes of a look. No broker answers here."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowTaskTimeout

from streams_recovery.config.loader import load_applications
from streams_recovery.core.status import info
from streams_recovery.operators import monitor as tasks
from tests.support.airflow.listener import Listener
from tests.support.airflow.monitored import configuration, context
from tests.support.project import PROJECT

TICK = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)


def test_the_dag_is_on_by_itself_and_has_the_schedules_of_all(metadata: None, directory: Path) -> None:
    configuration(directory, "payments", schedule="0 * * * *")
    configuration(directory, "by-hand", schedule=None)
    bag = DagBag(str(PROJECT / "dags" / "streams_monitor.py"))
    assert bag.import_errors == {}
    dag = bag.dags["streams_monitor"]
    assert (dag.is_paused_upon_creation, dag.catchup, dag.max_active_runs, dag.dagrun_timeout) == (False, False, 1, None)
    assert {task.task_id: task.upstream_task_ids for task in dag.tasks} == {
        "check_configurations": set(),
        "choose_applications": set(),
        "observe": {"choose_applications"},
    }
    assert tasks.schedules(load_applications()) == ["*/5 * * * *", "0 * * * *"]


def test_who_is_due_follows_the_schedules(directory: Path) -> None:
    configuration(directory, "payments", schedule="0 * * * *")
    configuration(directory, "by-hand", schedule=None)
    configs = load_applications()
    assert tasks.due(configs, TICK) == ["orders"]
    assert tasks.due(configs, TICK.replace(minute=0)) == ["orders", "payments"]
    assert tasks.due(configs, TICK.replace(minute=31)) == []
    assert tasks.due(configs, None) == ["by-hand", "orders", "payments"]


@pytest.mark.parametrize(("run_type", "chosen"), [("scheduled", []), ("manual", ["orders"])])
def test_each_run_is_a_heartbeat_and_one_by_hand_looks_at_all(
    directory: Path, sent: dict[str, float], run_type: str, chosen: list[str]
) -> None:
    run = SimpleNamespace(run_type=run_type, run_after=TICK.replace(minute=31))
    assert tasks.ChooseApplicationsOperator(task_id="choose").execute(context(dag_run=run)) == chosen
    due = sent.pop("streams_recovery.heartbeat_due_at_seconds")
    assert sent == {"streams_recovery.heartbeat": 1}
    assert 890 < due - time.time() <= 900


@pytest.mark.parametrize(("schedules", "seconds"), [(["0 * * * *", None], 7200), ([None, None], None), (["0 0 * * *", "*/5 * * * *"], 900)])
def test_the_next_heartbeat_is_due_by_the_most_frequent_schedule(
    directory: Path, sent: dict[str, float], schedules: list[str | None], seconds: float | None
) -> None:
    for name, schedule in zip(("orders", "payments"), schedules, strict=True):
        configuration(directory, name, schedule=schedule)
    tasks.ChooseApplicationsOperator(task_id="choose").execute(context(dag_run=SimpleNamespace(run_type="manual", run_after=TICK)))
    due = sent["streams_recovery.heartbeat_due_at_seconds"]
    assert due == 0 if seconds is None else seconds - 10 < due - time.time() <= seconds


def test_a_look_is_stored_told_and_sent(directory: Path, sent: dict[str, float], variables: dict[str, str]) -> None:
    observe = tasks.ObserveApplicationOperator(task_id="observe", application_name="orders")
    result = observe.execute(context())
    assert result["health"] == "trouble"
    assert set(Listener.heard) == {"raised no-savepoint", "raised not-seen:cluster"}
    assert sent["streams_recovery.exact_savepoint.orders"] == 0
    assert sent["streams_recovery.looks.orders"] == 1
    heard = len(Listener.heard)
    observe.execute(context(run_id="manual__2"))
    assert len(Listener.heard) == heard
    assert len(list((directory / "repository" / "orders" / "status").iterdir())) == 2
    known = {info.metric(name, "orders") for name in (*info.GAUGES, *info.COUNTERS)}
    assert set(sent) <= known


def test_a_look_that_cannot_be_stored_is_told_once_and_when_it_works_again(
    directory: Path, sent: dict[str, float], variables: dict[str, str]
) -> None:
    observe = tasks.ObserveApplicationOperator(task_id="observe", application_name="orders")
    (directory / "repository").write_text("a file where the repository should be")
    for _ in range(2):
        with pytest.raises(Exception, match="repository"):
            observe.execute(context())
    assert Listener.heard == ["raised monitor-failed"]
    assert sent == {"streams_recovery.look_failures.orders": 2}
    (directory / "repository").unlink()
    observe.execute(context())
    assert "over monitor-failed" in Listener.heard
    assert variables == {}


def test_a_look_that_takes_too_long_is_told_and_counted(
    directory: Path, sent: dict[str, float], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def alarm(*_: Any, **__: Any) -> None:
        raise AirflowTaskTimeout("the task has run for ten minutes")

    # Airflow raises it from a signal, wherever the task is then. Here that is always the same place.
    monkeypatch.setattr(tasks.Stats, "gauge", alarm)
    with pytest.raises(AirflowTaskTimeout):
        tasks.ObserveApplicationOperator(task_id="observe", application_name="orders").execute(context())
    assert Listener.heard == ["raised monitor-failed"]
    assert sent == {"streams_recovery.look_failures.orders": 1}
