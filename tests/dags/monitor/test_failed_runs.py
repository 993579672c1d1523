"""Who hears of a run that failed, and when that is over."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from streams_recovery.config.loader import load_application
from streams_recovery.operators import monitor as tasks
from streams_recovery.operators.approval import ApprovePlanOperator
from streams_recovery.operators.outcome import ended, outcome_callbacks, removed_dags
from tests.support.airflow.listener import Listener
from tests.support.airflow.monitored import configuration, context
from tests.support.project import PROJECT


def test_a_failed_run_is_told_once_and_over_with_the_next_that_succeeds(directory: Path) -> None:
    callbacks = outcome_callbacks("orders")
    for run in ("a", "b"):
        callbacks["on_failure_callback"](context(run_id=run, reason="task_failure"))
    callbacks["on_success_callback"](context(run_id="c"))
    callbacks["on_success_callback"](context(run_id="d"))
    assert Listener.heard == ["raised run-failed:streams_backup_orders", "over run-failed:streams_backup_orders"]


def test_a_plan_that_nobody_approved_is_no_failure_and_leaves_what_was_told_of_its_dag(directory: Path) -> None:
    approve = ApprovePlanOperator(application_name="orders", subject="Restore?")
    callbacks = outcome_callbacks("orders")
    callbacks["on_failure_callback"](context(run_id="a", reason="task_failure", task=approve))
    assert Listener.heard == []
    callbacks["on_failure_callback"](context(run_id="b", reason="task_failure"))
    callbacks["on_failure_callback"](context(run_id="c", reason="task_failure", task=approve))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]
    callbacks["on_failure_callback"](context(run_id="d", reason="timed_out", task=approve))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"], "it is known already"


def test_a_failed_run_of_a_dag_that_there_is_no_longer_is_over(directory: Path, sent: dict[str, float], variables: dict[str, str]) -> None:
    for dag_id in ("streams_drill_orders", "streams_restore_full_orders", "streams_backup_orders"):
        ended(context(dag=DAG(dag_id, schedule=None)), application_name="orders", failed=True)
    Listener.heard.clear()
    for run in ("a", "b"):
        tasks.ObserveApplicationOperator(task_id="observe", application_name="orders").execute(context(run_id=run))
    over = [heard for heard in Listener.heard if heard.startswith("over")]
    assert sorted(over) == ["over run-failed:streams_drill_orders", "over run-failed:streams_restore_full_orders"]


@pytest.mark.parametrize("access", [{}, {"access": {"own_dags": True}}])
def test_the_monitor_knows_which_dags_a_configuration_has(metadata: None, directory: Path, access: dict[str, Any]) -> None:
    file = directory / "orders.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | access))
    found = DagBag(str(PROJECT / "dags")).dags
    gone = removed_dags(load_application("orders"))
    own = {f"streams_restore_{kind}_orders" for kind in ("full", "pitr", "rebuild")}
    assert gone & found.keys() == set()
    assert {"streams_drill_orders", "streams_reprocess_orders"} <= gone
    assert own <= (found.keys() if access else gone)


def test_a_run_of_any_application_is_told_by_the_notifiers_of_the_one_it_was_for(directory: Path) -> None:
    configuration(directory, "payments", notify=False)
    callback = outcome_callbacks()["on_failure_callback"]
    callback(context(params={"application": "payments"}))
    callback(context(params={"application": "nobody"}))
    assert Listener.heard == []
    callback(context(params={}, dag_run=SimpleNamespace(conf={"application": "orders"}, run_id="x")))
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]


def test_a_failed_run_is_told_although_it_cannot_be_written_down(directory: Path) -> None:
    (directory / "repository").write_text("a file where the repository should be")
    ended(context(), application_name="orders", failed=True)
    assert Listener.heard == ["raised run-failed:streams_backup_orders"]
    ended(context(), application_name="orders", failed=False)
    assert len(Listener.heard) == 1
