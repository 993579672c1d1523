"""Reprocessing as the installed Airflow sees it: intervals from the schedule, work for backfills only, and a removal whatever failed."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict, process_params
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.utils.db import initdb

from streams_recovery.config.loader import load_application
from streams_recovery.core import codec
from streams_recovery.core.errors import ConfigInvalid, Refused
from streams_recovery.operations.interval import Claimed
from streams_recovery.operators.sandbox import interval_of, why_not_now
from tests.support.project import PROJECT

NAME = "order-processing"
NOON, ONE = datetime(2026, 11, 21, 12, tzinfo=UTC), datetime(2026, 11, 21, 13, tzinfo=UTC)
NOON_MS = 1_795_262_400_000


@pytest.fixture(scope="module")
def dag() -> Any:
    initdb()
    bag = DagBag(str(PROJECT / "dags" / "streams_reprocess.py"))
    assert bag.import_errors == {}
    return bag.dags[f"streams_reprocess_{NAME}"]


def test_the_schedule_makes_intervals_of_any_age_and_catches_up_with_none(dag: Any) -> None:
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert (dag.catchup, dag.max_active_runs, dag.start_date.year) == (False, 1, 2000)
    assert dag.dagrun_timeout is None, "a timeout of the run would skip what removes the interval's application"


def test_the_tasks_are_those_of_a_restore_that_stops_between_a_claim_and_a_removal(dag: Any) -> None:
    assert dag.get_task("publish_results").upstream_task_ids == {"drain"}
    assert dag.get_task("load_deferred_input").retries == 2, "a retry goes on behind what was loaded"
    assert "approve" not in dag.task_ids, "hundreds of intervals are confirmed once, by the application id in the backfill's params"
    of_itself = {task.task_id for task in dag.tasks if task.application_name == NAME}
    assert of_itself == {"claim", "conclude"}, "all else is done to the application that the claim has named"
    assert {task.application_name for task in dag.tasks} - {NAME} == {"{{ ti.xcom_pull(task_ids='claim')['application'] }}"}


def test_an_interval_is_removed_whatever_failed_and_the_last_task_fails_with_it(dag: Any) -> None:
    remove, conclude = dag.get_task("remove"), dag.get_task("conclude")
    assert (remove.is_teardown, remove.retries, dag.get_task("open_restore").is_setup) == (True, 3, True)
    assert {task.task_id for task in dag.tasks if not task.downstream_task_ids} == {"conclude"}
    assert (str(conclude.trigger_rule.value), conclude.is_teardown) == ("all_done", False)
    assert "'finish'" in conclude.report, "one that was not finished has failed, though all of its results were published"


def test_who_waits_for_a_slot_holds_no_worker(dag: Any) -> None:
    claim = dag.get_task("claim")
    assert (claim.mode, claim.reschedule) == ("reschedule", True)


def test_by_default_results_stay_side_by_side_and_nothing_is_deleted(dag: Any) -> None:
    params = dag.params
    assert (params["publish"], params["confirm"], params["tombstones"]) == ("side_by_side", None, False)


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("lateness", "", True),
        ("lateness", "PT90M", True),
        ("overlap", "P1DT2H", True),
        ("beyond", "90m", False),
        ("overlap", "P1M", False),
        ("base", "savepoint", True),
        ("base", "latest", False),
        ("publish", "replace", True),
        ("publish", "append", False),
        ("tombstones", "perhaps", False),
        ("tombstones", "true", False),
        ("lateness", None, True),
        ("from", None, True),
        ("from", "2026-11-21T12:00:00Z", True),
        ("from", "2026-11-21T12:00:00", False),
        ("to", "2026-11-21T13:00 Europe/Vienna", True),
        ("to", "2026-11-21", False),
    ],
)
def test_params_that_do_not_fit_are_refused(dag: Any, name: str, value: str | None, fits: bool) -> None:
    param = copy.deepcopy(dag.params.get_param(name))
    if fits:
        assert param.resolve(value) == value
    else:
        with pytest.raises((AirflowException, ValueError)):
            param.resolve(value)


def test_a_run_by_the_schedule_says_why_it_does_nothing() -> None:
    assert "create a backfill" in str(why_not_now("scheduled"))
    assert (why_not_now("backfill"), why_not_now("manual")) == (None, None)


def test_a_backfill_has_the_interval_of_its_run_and_anybody_else_has_to_name_one() -> None:
    found = interval_of("backfill", "", "", (NOON, ONE))
    assert (found.start, found.end) == (NOON_MS, NOON_MS + 3_600_000)
    by_hand = interval_of("manual", "2026-11-21T12:00:00Z", "2026-11-21T14:00:00+01:00", (NOON, NOON))
    assert by_hand == found
    for data in ((NOON, ONE), (None, None)):
        with pytest.raises(ConfigInvalid, match="no interval is given"):
            interval_of("manual", "", "", data)
    with pytest.raises(ConfigInvalid) as caught:
        interval_of("backfill", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z", (NOON, ONE))
    assert caught.value.facts == {"begin": "2026-11-21T12:00:00Z", "end": "2026-11-21T13:00:00Z"}
    with pytest.raises(ConfigInvalid, match="is no interval"):
        interval_of("backfill", "", "", (NOON, NOON))


def claimed(dag: Any, start: int, run_type: str = "backfill", **conf: Any) -> Any:
    """What the sensor finds for the interval of a day."""
    sensor = dag.get_task("claim").prepare_for_execution()
    # A param keeps the value it had last.
    declared = copy.deepcopy(dag.params)
    sensor.params = ParamsDict()
    params = process_params(SimpleNamespace(params=declared), sensor, conf, suppress_exception=False)  # type: ignore[arg-type]
    sensor.render_template_fields({"params": params})
    day = timedelta(days=1)
    run = SimpleNamespace(
        run_type=run_type,
        run_id=f"{run_type}__{start}",
        dag_id=dag.dag_id,
        data_interval_start=NOON + start * day,
        data_interval_end=NOON + (start + 1) * day,
    )
    return sensor.poke({"dag_run": run})


def test_each_run_claims_its_interval_and_waits_when_no_slot_is_free(dag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "STREAMS_RECOVERY_STACK": str(tmp_path),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "repository").mkdir()
    with pytest.raises(AirflowSkipException, match="create a backfill"):
        claimed(dag, 0, "scheduled")
    first = claimed(dag, 0, overlap="PT5M", reason="why")
    assert first.is_done
    found = codec.decode(Claimed, first.xcom_value, where="the claim")
    assert (found.application, found.slot) == (f"{NAME}:reprocess:20261121T120000Z:0", 0)
    assert (found.request.slice.overlap, found.request.slice.lateness, found.request.reason) == (300_000, 3_600_000, "why")
    assert found.request.slice.tables == ("inventory",)
    assert load_application(found.application).application.id == "reprocess-order-processor-20261121T120000Z"
    waiting = claimed(dag, 1)
    assert (waiting.is_done, waiting.xcom_value) == (False, None)
    assert claimed(dag, 0).is_done, "the interval that has the slot is not in its own way"
    with pytest.raises(AirflowFailException, match="typed to confirm") as caught:
        claimed(dag, 0, publish="replace", confirm="x")
    assert isinstance(caught.value.__cause__, Refused)
    assert caught.value.__cause__.facts["confirm"] == "x"
    with pytest.raises(AirflowFailException, match="no interval is given"):
        claimed(dag, 0, "manual")
    moments = {"from": "2026-11-21T12:00:00Z", "to": "2026-11-22T12:00:00Z"}
    by_hand = codec.decode(Claimed, claimed(dag, 5, "manual", tombstones=False, nobody="asked for this", **moments).xcom_value, where="it")
    assert by_hand.request.slice.interval == found.request.slice.interval
    with pytest.raises(AirflowFailException, match="tombstones belong to publish replace"):
        claimed(dag, 0, tombstones=True)
