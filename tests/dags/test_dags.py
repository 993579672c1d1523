"""The DAG files as the installed Airflow sees them."""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.param import ParamsDict, process_params
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.db import initdb

from streams_recovery.config.directory import load_application
from streams_recovery.config.schedules import plain
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.offsets.strategies import EXACT, STRATEGIES, parse
from streams_recovery.core.restore.point_in_time import AsOf, CutBy
from streams_recovery.core.restore.request import OutputPolicy, Safeguards, SafetyPolicy
from streams_recovery.core.timestamps import parse_moment
from streams_recovery.operations.restore.strategies import AsOfMoment, FromSavepoint, Interval, Rebuild, RestoreRequest, Undo
from streams_recovery.triggers.application import WatchTrigger
from tests.support.airflow.restore_dags import APPEND, CLONE, MONITOR, OF_ALL, RESTORE_DAGS, WAYS_BACK
from tests.support.project import PROJECT

PER_APPLICATION = [f"streams_{what}_order-processing" for what in ("backup", "check", "expire", "compact", "drill", "run", "reprocess")]
BACKUP, VERIFY, EXPIRE, COMPACT, DRILL, RUN, REPROCESS = PER_APPLICATION
RESTORE, UNDO, REBUILD, PITR = (strategy.DAG for strategy in (FromSavepoint, Undo, Rebuild, AsOfMoment))
NAME = "order-processing"
MOMENT = "2026-11-21T12:00:00Z"
DESTRUCTIVE = {"stop_application", "prepare_topics", "reset_consumer_group", "wipe_state", "start_application", "load_records"}
# Every task by which a person's wishes reach a restore.
REQUESTED = [
    *((dag_id, task_id) for dag_id in RESTORE_DAGS for task_id in ("plan", "open_restore")),
    (DRILL, "plan"),
    (DRILL, "open_restore"),
    (CLONE, "clone.plan"),
    (CLONE, "clone.open_restore"),
    (CLONE, "upgrade.plan"),
    (CLONE, "upgrade.open_restore"),
]
OF_A_PERSON = [(dag_id, task_id) for dag_id, task_id in REQUESTED if dag_id != DRILL]


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    initdb()
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


class Pulled:
    """What the tasks before have returned."""

    def xcom_pull(self, task_ids: str) -> dict[str, str]:
        """As a task group's *plan* or *publish* does."""
        return {
            "hash": f"hash of {task_ids}",
            "text": f"text of {task_ids}",
            "savepoint": f"savepoint of {task_ids}",
            "savepoint_id": f"id of {task_ids}",
            "restore": f"restore of {task_ids}",
            "old": NAME,
        }


def rendered(dag: Any, task_id: str, **conf: Any) -> Any:
    """The task as it would be executed in a run that was triggered with ``conf``. Raises for params that do not fit."""
    task = dag.get_task(task_id).prepare_for_execution()
    given = {"application": NAME, **({"as_of": MOMENT} if dag.dag_id == PITR else {}), **conf}
    # A param keeps the value it had last.
    declared = copy.deepcopy(dag.params)
    task.params = ParamsDict()
    params = process_params(SimpleNamespace(params=declared), task, given, suppress_exception=False)  # type: ignore[arg-type]
    task.render_template_fields({"params": params, "ti": Pulled()})
    return task


def request(dag: Any, task_id: str, **conf: Any) -> Any:
    """What that task asks a restore for."""
    found = rendered(dag, task_id, **conf).request(SimpleNamespace(config=load_application(NAME)))
    assert isinstance(found, RestoreRequest)
    return found


@pytest.mark.parametrize("dag_id", RESTORE_DAGS)
def test_a_dag_asks_for_the_strategy_that_names_it(dags: dict[str, Any], dag_id: str) -> None:
    assert {type(request(dags[dag_id], task_id)) for task_id in ("plan", "open_restore")} == {RESTORE_DAGS[dag_id]}


@pytest.fixture(autouse=True)
def a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any application is one of itself: what a clone's tasks ask for needs no configuration of a clone."""
    monkeypatch.setattr("streams_recovery.operators.clone.original_of", lambda _name: NAME)


def test_there_is_a_backup_and_its_upkeep_for_every_application_and_one_of_each_way_back(dags: dict[str, Any]) -> None:
    assert set(dags) == {*PER_APPLICATION, *OF_ALL}


@pytest.mark.parametrize("dag_id", [*PER_APPLICATION, *OF_ALL])
def test_serialises_and_has_the_same_tasks_afterwards(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_ids) == set(dag.task_ids)


def test_backup_is_hourly_without_catchup_and_one_at_a_time(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (plain("H * * * *", NAME, "backup"), False, 1)
    assert dag.dagrun_timeout is None, "a timeout of the run would skip the teardown that brings the application back"


def test_a_dag_of_one_application_has_one_run_at_a_time_and_one_of_all_has_many(dags: dict[str, Any]) -> None:
    # A run that waits for its approval would keep every other application of the company from being restored.
    runs = dict.fromkeys((*PER_APPLICATION, MONITOR), 1) | dict.fromkeys(WAYS_BACK, 32)
    assert {dag_id: dag.max_active_runs for dag_id, dag in dags.items()} == runs


def test_no_dag_is_paused_when_it_appears(dags: dict[str, Any]) -> None:
    # A run that is triggered on a paused DAG waits for ever, and nobody is told of a backup that never runs.
    assert {dag_id for dag_id, dag in dags.items() if dag.is_paused_upon_creation is not False} == set()


def test_only_a_backup_runs_at_once_and_the_others_when_they_are_due(dags: dict[str, Any]) -> None:
    # A check or a drill of a repository that is still empty could only fail.
    scheduled = {dag_id for dag_id in PER_APPLICATION if dags[dag_id].schedule is not None and dag_id != REPROCESS}
    assert {dag_id for dag_id in scheduled if dags[dag_id].start_date is not None} == {BACKUP}


def test_a_mistake_in_assets_harms_no_savepoint_and_no_restore(dags: dict[str, Any]) -> None:
    for dag in dags.values():
        for task in dag.tasks:
            if task.inlets or task.outlets:
                assert task.task_id.rpartition(".")[2] == "report", (dag.dag_id, task.task_id)
                assert not {one for one in task.downstream_list if not one.is_teardown}, "nothing waits for it"


def test_savepoints_and_restores_are_reported_with_what_they_were_made_of(dags: dict[str, Any]) -> None:
    topics = ["kafka/kafka_default/orders", "kafka/kafka_default/inventory", "kafka/kafka_default/customers"]
    found = {dag_id: ([one.name for one in task.inlets], [one.name for one in task.outlets]) for dag_id, task in reports(dags).items()}
    assert found == {
        BACKUP: (topics, [f"savepoints/{NAME}"]),
        COMPACT: ([f"savepoints/{NAME}"], [f"savepoints/{NAME}"]),
        CLONE: ([], ["streams-recovery/savepoints"]),
        **dict.fromkeys((RESTORE, UNDO, REBUILD, PITR), ([f"savepoints/{NAME}"], ["streams-recovery/restores"])),
    }


def reports(dags: dict[str, Any]) -> dict[str, Any]:
    return {dag_id: task for dag_id, dag in dags.items() for task in dag.tasks if task.task_id.rpartition(".")[2] == "report"}


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


@pytest.mark.parametrize("dag_id", [*RESTORE_DAGS, APPEND])
def test_nothing_of_a_restore_happens_before_the_approval(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    before = dag.get_task("approve").get_flat_relative_ids(upstream=True)
    assert before == {"plan"}
    assert dag.get_task("approve").defaults == ["Reject"]


def test_a_rejection_is_final_and_an_approval_that_airflow_failed_is_asked_for_again(dags: dict[str, Any]) -> None:
    approve = rendered(dags[RESTORE], "approve")
    context = {"dag_run": SimpleNamespace(triggering_user_name=None)}
    answer = {"params_input": {}, "responded_at": datetime.now(UTC), "responded_by_user": None}
    with pytest.raises(AirflowFailException, match="Nothing was changed"):
        approve.execute_complete(context, {"chosen_options": ["Reject"], **answer})
    assert approve.execute_complete(context, {"chosen_options": ["Approve"], **answer})["chosen_options"] == ["Approve"]
    assert approve.retries == 3


def check_order(dag: Any, order: list[str]) -> None:
    for earlier, later in itertools.pairwise(order):
        assert earlier in dag.get_task(later).get_flat_relative_ids(upstream=True), (earlier, later)


@pytest.mark.fault("F20")
@pytest.mark.parametrize("where", [DRILL, REPROCESS, *RESTORE_DAGS, "clone", "upgrade"])
def test_destructive_tasks_are_never_retried_by_themselves_but_a_load_goes_on(dags: dict[str, Any], where: str) -> None:
    dag_id, group = (where, "") if where in dags else (CLONE, f"{where}.")
    retries = {name: dags[dag_id].get_task(f"{group}{name}").retries for name in DESTRUCTIVE}
    assert retries == dict.fromkeys(DESTRUCTIVE, 0) | {"load_records": 2}


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


@pytest.mark.fault("F60")
@pytest.mark.parametrize(
    "conf",
    [
        {"application": "nobody"},
        {"savepoint": "../../x"},
        {"savepoint": "latest; rm -rf /"},
        {"allow_ahead": "perhaps"},
        {"allow_ahead": "True"},
        {"replace": "true"},
        {"delete": "a"},
        {"delete": [""]},
        {"delete": ["../x"]},
        {"delete": ["a", "b; c"]},
        {"confirm": 1},
        {"replace": "perhaps"},
        {"compare_keys": "perhaps"},
        {"safety": "none"},
        {"offsets": "oldest"},
        {"offsets": "shift:x"},
        {"offsets": "file:../x"},
        {"offsets": "file:/etc/passwd"},
        {"offsets": "latest; x"},
    ],
)
def test_params_that_do_not_fit_are_refused(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    param = dags[RESTORE].params.get_param(name)
    param.resolve()
    with pytest.raises((AirflowException, ValueError)):
        param.resolve(conf[name])


@pytest.mark.parametrize("inputs_from", ["../../x", "before:latest", "none", "latest; x"])
def test_inputs_come_from_no_savepoint_that_is_none(dags: dict[str, Any], inputs_from: str) -> None:
    dag = dags[REBUILD]
    assert (request(dag, "plan").inputs_from, request(dag, "open_restore", inputs_from="latest").inputs_from) == ("", "latest")
    with pytest.raises((AirflowException, ValueError)):
        request(dag, "plan", inputs_from=inputs_from)


@pytest.mark.parametrize(("dag_id", "task_id"), REQUESTED)
def test_by_default_a_restore_replaces_nothing_and_saves_what_is_there(dags: dict[str, Any], dag_id: str, task_id: str) -> None:
    asked = request(dags[dag_id], task_id)
    # An undo replaces what is there, so its confirmation is typed.
    assert asked.safeguards == Safeguards(replace=dag_id == UNDO)
    assert not asked.compare_keys
    match asked:
        case FromSavepoint():
            assert (dag_id in (RESTORE, DRILL, CLONE), asked.allow_ahead, asked.allow_damaged) == (True, False, False)
            assert (asked.source != "") == (dag_id in (DRILL, CLONE))
        case Undo():
            assert (dag_id, asked.allow_ahead, asked.allow_damaged) == (UNDO, False, False)
        case Rebuild():
            assert (dag_id, asked.accept_gap, asked.inputs_from, asked.outputs) == (REBUILD, False, "", OutputPolicy.KEEP)
        case AsOfMoment():
            assert (dag_id, asked.allow_ahead, asked.in_place, asked.groups, asked.source) == (PITR, False, False, (), "")
        case Interval():
            pytest.fail("no form asks for an interval")


@pytest.mark.fault("F60")
@pytest.mark.parametrize(("dag_id", "task_id"), REQUESTED)
def test_what_the_form_does_not_ask_for_is_never_done(dags: dict[str, Any], dag_id: str, task_id: str) -> None:
    # Airflow takes whatever stands in a run's conf, and checks only what the DAG declares.
    everything = {
        "source": NAME,
        "allow_ahead": True,
        "allow_damaged": True,
        "replace": True,
        "delete": ["a"],
        "safety": "skip",
        "outputs": "recreate",
        "accept_gap": True,
        "inputs_from": "latest",
        "as_of": MOMENT,
        "by": "position",
        "in_place": True,
        "groups": ["b"],
        "compare_keys": True,
        "confirm": "orders",
        "offsets": "latest",
    }
    dag = dags[dag_id]
    conf = {name: value for name, value in everything.items() if name not in dag.params}
    assert request(dag, task_id, **conf) == request(dag, task_id)


def test_what_a_person_chose_reaches_the_restore(dags: dict[str, Any]) -> None:
    chosen = {"replace": True, "delete": ["a", "b"], "safety": "skip", "confirm": "orders", "reason": "why"}
    for dag_id, task_id in OF_A_PERSON:
        dag = dags[dag_id]
        asked = request(dag, task_id, **{name: value for name, value in chosen.items() if name in dag.params})
        safety = SafetyPolicy.REQUIRED if dag_id == UNDO else SafetyPolicy.SKIP
        assert asked.safeguards == Safeguards(replace=True, delete=("a", "b"), safety=safety, confirm="orders")
        assert asked.reason == "why"


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


@pytest.mark.parametrize(
    ("dag_id", "plan"), [(RESTORE, "plan"), (UNDO, "plan"), (PITR, "plan"), (CLONE, "clone.plan"), (CLONE, "upgrade.plan")]
)
def test_keys_are_compared_only_when_somebody_asks_for_it(dags: dict[str, Any], dag_id: str, plan: str) -> None:
    assert [request(dags[dag_id], plan, compare_keys=wish).compare_keys for wish in (False, True)] == [False, True]


@pytest.mark.parametrize("offsets", [strategy.FORM for strategy in STRATEGIES if strategy.KIND != "file"])
def test_every_strategy_for_offsets_reaches_a_restore(dags: dict[str, Any], offsets: str) -> None:
    for task_id in ("plan", "open_restore"):
        asked = request(dags[RESTORE], task_id, offsets=offsets, confirm="orders")
        assert (asked.offsets, asked.safeguards.confirm) == (parse(offsets, group="", read=lambda _name: b""), "orders")


@pytest.mark.parametrize("offsets", [None, ""])
def test_without_a_strategy_offsets_are_as_configured(dags: dict[str, Any], offsets: str | None) -> None:
    configured = request(dags[RESTORE], "plan").offsets
    assert request(dags[RESTORE], "open_restore", offsets=offsets).offsets == configured
    assert request(dags[RESTORE], "plan", offsets="latest").offsets != configured


def test_offsets_come_from_a_file_of_the_configurations_only(dags: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalid, match=r"offsets\.csv"):
        request(dags[RESTORE], "plan", offsets="file:offsets.csv")


def test_a_restore_to_a_moment_stops_at_the_ends_and_no_other_does(dags: dict[str, Any]) -> None:
    stop = dags[PITR].get_task("drain")
    assert (stop.upstream_task_ids, stop.downstream_task_ids) == ({"await_recovered"}, {"finish"})
    assert [dag_id for dag_id in (RESTORE, UNDO) if "drain" in dags[dag_id].task_ids] == []
    for task_id in ("plan", "open_restore"):
        asked = request(dags[PITR], task_id, as_of=MOMENT, by="position")
        assert asked.as_of == AsOf(moment=parse_moment(MOMENT), by=CutBy.POSITION)


def test_inputs_are_cut_where_they_are_only_when_that_was_said_with_everybody_who_reads_them(dags: dict[str, Any]) -> None:
    for task_id in ("plan", "open_restore"):
        asked = request(dags[PITR], task_id, in_place=True, groups=["one", "two"])
        assert (asked.in_place, asked.groups) == (True, ("one", "two"))


def test_later_input_is_appended_once_after_the_approval_and_the_lock_goes_back(dags: dict[str, Any]) -> None:
    dag = dags[APPEND]
    check_order(dag, ["plan", "approve", "open_append"])
    assert dag.get_task("append_records").retries == 0
    assert dag.get_task("leave").is_teardown
    assert dag.get_task("open_append").is_setup
    assert dag.get_task("open_append").restore == "{{ ti.xcom_pull(task_ids='plan')['restore'] }}"
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("restore").resolve("../../x")


@pytest.mark.parametrize(
    "as_of", [None, "2026-11-21T12:00:00Z", "2026-11-21T12:00:00.5+01:00", "2026-11-21T12:00 Europe/Vienna", "2026-11-21T12:00Z"]
)
def test_a_moment_has_a_time_zone(dags: dict[str, Any], as_of: str | None) -> None:
    param = dags[PITR].params.get_param("as_of")
    assert param.resolve(as_of) == as_of
    assert param.schema["format"] == "date-time", "the form shows a date picker"


@pytest.mark.parametrize(
    "conf",
    [{"as_of": "2026-11-21T12:00:00"}, {"as_of": "2026-11-21"}, {"as_of": "yesterday"}, {"by": "offset"}, {"savepoint": "before:latest"}],
)
def test_what_is_no_moment_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[PITR].params.get_param(name).resolve(conf[name])


def test_a_check_reads_before_it_concludes_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[VERIFY]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (plain("H 3 * * 0", NAME, "check"), False, 1)
    assert dag.get_task("conclude").get_flat_relative_ids(upstream=True) == {"plan", "read_files"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()


def test_an_application_that_was_started_for_a_run_is_stopped_whatever_becomes_of_it(dags: dict[str, Any]) -> None:
    dag = dags[RUN]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    stop = dag.get_task("stop_application")
    assert (stop.is_teardown, stop.on_failure_fail_dagrun, stop.retries) == (True, True, 5)
    assert dag.get_task("start_application").is_setup
    assert dag.get_task("await_ends").upstream_task_ids == {"start_application"}
    leaves = {task.task_id for task in dag.tasks if not task.downstream_task_ids and not task.is_teardown}
    assert leaves == {"ends_reached"}, "a waiting that failed fails the run, which a stop that succeeds would hide"


def test_what_a_sensor_waits_for_survives_the_way_to_the_triggerer() -> None:
    facts = {"ends": {"in 0": 5}, "until": None}
    wanted = {"application_name": "a", "watch": "ends_reached", "facts": facts, "interval": 5.0, "settle": 10.0}
    path, told = WatchTrigger(**wanted).serialize()  # type: ignore[arg-type]
    assert (path, told) == ("streams_recovery.triggers.application.WatchTrigger", wanted)


@pytest.mark.parametrize("level", ["sample=10", "everything", "full; true"])
def test_levels_that_do_not_exist_never_become_a_run(dags: dict[str, Any], level: str) -> None:
    with pytest.raises((AirflowException, ValueError)):
        dags[VERIFY].params.get_param("level").resolve(level)


def test_an_expiry_is_shown_first_and_announced_before_it_deletes(dags: dict[str, Any]) -> None:
    dag = dags[EXPIRE]
    assert (dag.schedule, dag.max_active_runs, dag.params["apply"]) == (plain("H 2 * * *", NAME, "retention"), 1, "after_days")
    assert dag.get_task("expire").upstream_task_ids == {"plan"}
    assert dag.get_task("expire").retries == 0


def test_a_compaction_publishes_only_what_its_job_has_proven_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[COMPACT]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    assert dag.get_task("publish").get_flat_relative_ids(upstream=True) == {"plan", "compact_records"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("savepoint").resolve("all")


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


def test_tasks_only_use_what_tasks_before_them_have_returned(dags: dict[str, Any]) -> None:
    pulled = "ti.xcom_pull(task_ids='"
    for dag in dags.values():
        for task in dag.tasks:
            for field in task.template_fields:
                for text in (value for value in flat(getattr(task, field, None)) if pulled in value):
                    source = text.split(pulled)[1].split("'")[0]
                    assert source in task.get_flat_relative_ids(upstream=True), (dag.dag_id, task.task_id, field, source)


def flat(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in flat(inner)]
    return [value] if isinstance(value, str) else []


def test_a_failed_cut_over_fails_its_run(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    assert {dag.get_task(f"cut_over.{name}").retries for name in ("stop", "transfer_outputs", "start_live")} == {0}
    assert dag.get_task("cut_over.abandon").is_teardown
    assert not dag.get_task("cut_over.abandon").on_failure_fail_dagrun, "else it would hide what failed"


@pytest.mark.parametrize("step", ["cut_over", "roll_back"])
def test_what_a_person_chose_reaches_the_cut_over(dags: dict[str, Any], step: str) -> None:
    for task_id in ("cut_over.plan", "cut_over.open"):
        asked = rendered(dags[CLONE], task_id, step=step).request
        assert (asked.step, asked.max_lag, asked.reason, asked.restore_first) == (step, None, "", False)
        asked = rendered(dags[CLONE], task_id, step=step, max_lag=0, reason="why", restore_first=True).request
        assert (asked.step, asked.max_lag, asked.reason, asked.restore_first) == (step, 0, "why", True)


def test_an_upgrade_brings_the_old_application_back_last_whatever_failed(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    order = ["retire.plan", "retire.approve", "retire.begin", "retire.publish", "upgrade.plan", "upgrade.open_restore", "upgrade.abandon"]
    check_order(dag, [*order, "retire.bring_back"])
    back = dag.get_task("retire.bring_back")
    assert (back.is_teardown, back.retries, back.downstream_task_ids) == (True, 3, set())
    assert "retire.finish" in back.get_flat_relative_ids(upstream=True), "it needs the lock that the savepoint gives back"
    assert dag.get_task("retire.begin").mode == "stop"
    assert "resume" not in {name.rpartition(".")[2] for name in dag.task_ids}, "it stays down"
    old = {task.task_id for task in dag.tasks if getattr(task, "application_name", "").startswith("{{ ti.")}
    assert old == {f"retire.{name}" for name in ("begin", "quiesce", "capture_cut", "copy_records", "verify_segments", "publish", "finish")}


@pytest.mark.parametrize(
    "conf", [{"step": "cutover"}, {"max_lag": -1}, {"max_lag": "many"}, {"application": "nobody"}, {"savepoint": "before:latest"}]
)
def test_what_is_no_step_of_a_clone_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[CLONE].params.get_param(name).resolve(conf[name])
