"""The DAG files as the installed Airflow sees them."""

from __future__ import annotations

import copy
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.db import initdb

from streams_recovery.triggers.application import WatchTrigger
from tests.support.project import PROJECT

PER_APPLICATION = [f"streams_{what}_order-processing" for what in ("backup", "verify", "expire", "compact", "drill", "run", "reprocess")]
BACKUP, VERIFY, EXPIRE, COMPACT, DRILL, RUN, REPROCESS = PER_APPLICATION
WAYS_BACK = [
    "streams_restore_full",
    "streams_undo",
    "streams_restore_rebuild",
    "streams_restore_pitr",
    "streams_clone",
    "streams_append_quarantine",
]
RESTORE, UNDO, REBUILD, PITR, CLONE, APPEND = WAYS_BACK
ONCE = {"stop_application", "prepare_topics", "reset_consumer_group", "wipe_state", "start_application"}
BEFORE = ["plan", "approve", "open_restore", "stop_application", "save_state", "copy_state", "keep_state", "prepare_topics"]
AFTER = ["reset_consumer_group", "wipe_state", "start_application", "await_recovered", "finish", "abandon"]
DESTRUCTIVE = ONCE | {"load_records"}


@pytest.fixture(scope="module")
def dags() -> dict[str, Any]:
    initdb()
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_there_is_a_backup_and_its_upkeep_for_every_application_and_one_of_each_way_back(dags: dict[str, Any]) -> None:
    assert set(dags) == {*PER_APPLICATION, *WAYS_BACK}


@pytest.mark.parametrize("dag_id", [*PER_APPLICATION, *WAYS_BACK])
def test_serialises_and_has_the_same_tasks_afterwards(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_ids) == set(dag.task_ids)


def test_backup_is_hourly_without_catchup_and_one_at_a_time(dags: dict[str, Any]) -> None:
    dag = dags[BACKUP]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("0 * * * *", False, 1)
    assert dag.dagrun_timeout is None, "a timeout of the run would skip the teardown that brings the application back"


def test_a_dag_of_one_application_has_one_run_at_a_time_and_one_of_all_has_many(dags: dict[str, Any]) -> None:
    # A run that waits for its approval would keep every other application of the company from being restored.
    runs = dict.fromkeys(PER_APPLICATION, 1) | dict.fromkeys(WAYS_BACK, 32)
    assert {dag_id: dag.max_active_runs for dag_id, dag in dags.items()} == runs


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


@pytest.mark.parametrize("dag_id", [RESTORE, UNDO, REBUILD, PITR, APPEND])
def test_nothing_of_a_restore_happens_before_the_approval(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    before = dag.get_task("approve").get_flat_relative_ids(upstream=True)
    assert before == {"plan"}
    assert dag.get_task("approve").defaults == ["Reject"]


def test_a_rejection_is_final_and_an_approval_that_airflow_failed_is_asked_for_again(dags: dict[str, Any]) -> None:
    approve = dags[RESTORE].get_task("approve")
    answer = {"params_input": {}, "responded_at": datetime.now(UTC), "responded_by_user": None}
    with pytest.raises(AirflowFailException, match="nothing was touched"):
        approve.execute_complete({}, {"chosen_options": ["Reject"], **answer})
    assert approve.execute_complete({}, {"chosen_options": ["Approve"], **answer})["chosen_options"] == ["Approve"]
    assert approve.retries == 3


@pytest.mark.parametrize("dag_id", [RESTORE, UNDO, PITR])
def test_steps_of_a_restore_come_in_the_order_that_is_safe(dags: dict[str, Any], dag_id: str) -> None:
    check_order(dags[dag_id], [*BEFORE, "load_records", "check_load", "compare_records", "verify_changelogs", *AFTER])


def test_a_rebuild_has_the_same_order_and_proves_that_there_is_no_state(dags: dict[str, Any]) -> None:
    order = [*BEFORE, "load_records", "check_load", "compare_records", "verify_changelogs", "verify_cleared", *AFTER]
    check_order(dags[REBUILD], order)
    assert set(dags[REBUILD].task_ids) == set(order)


def check_order(dag: Any, order: list[str]) -> None:
    for earlier, later in itertools.pairwise(order):
        assert earlier in dag.get_task(later).get_flat_relative_ids(upstream=True), (earlier, later)


@pytest.mark.fault("F20")
@pytest.mark.parametrize("dag_id", [DRILL, REPROCESS, RESTORE, UNDO, PITR])
def test_destructive_tasks_are_never_retried_by_themselves_but_a_load_goes_on(dags: dict[str, Any], dag_id: str) -> None:
    assert {name: dags[dag_id].get_task(name).retries for name in ONCE} == dict.fromkeys(ONCE, 0)
    assert dags[dag_id].get_task("load_records").retries == 2


@pytest.mark.fault("F20")
@pytest.mark.parametrize(
    ("dag_id", "task_id"),
    [
        (RESTORE, "abandon"),
        (UNDO, "abandon"),
        (PITR, "abandon"),
        (REBUILD, "abandon"),
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
    param = copy.copy(dags[REBUILD].params.get_param("inputs_from"))
    assert (param.resolve(), param.resolve("latest")) == ("", "latest")
    with pytest.raises((AirflowException, ValueError)):
        param.resolve(inputs_from)
    assert dags[REBUILD].get_task("open_restore").asked["inputs_from"] == "{{ params.inputs_from }}"


def test_by_default_a_restore_replaces_nothing_that_lives_and_saves_what_is_there(dags: dict[str, Any]) -> None:
    params = dags[RESTORE].params
    assert (params["replace"], params["safety"], params["confirm"]) == (False, "required", "")
    assert dags[UNDO].get_task("plan").asked["savepoint"] == "before:{{ params.restore }}"
    assert dags[UNDO].params["confirm"] == "", "an undo replaces what is there, so its confirmation is typed"


@pytest.mark.parametrize(
    ("dag_id", "plan"), [(RESTORE, "plan"), (UNDO, "plan"), (PITR, "plan"), (CLONE, "clone.plan"), (CLONE, "upgrade.plan_restore")]
)
def test_keys_are_compared_only_when_somebody_asks_for_it(dags: dict[str, Any], dag_id: str, plan: str) -> None:
    assert dags[dag_id].params["compare_keys"] is False
    assert dags[dag_id].get_task(plan).asked["compare_keys"] == "{{ params.compare_keys }}"


@pytest.mark.parametrize(
    "offsets", ["", "exact", "shift:-100", "timestamp:2026-11-21T12:00:00+01:00", "specific:orders:0=17", "file:offsets.csv"]
)
def test_every_strategy_for_offsets_reaches_a_restore(dags: dict[str, Any], offsets: str) -> None:
    assert dags[RESTORE].params.get_param("offsets").resolve(offsets) == offsets
    for task_id in ("plan", "open_restore"):
        task = dags[RESTORE].get_task(task_id)
        assert (task.asked["offsets"], task.asked["confirm"]) == ("{{ params.offsets }}", "{{ params.confirm }}")


def test_a_restore_to_a_moment_stops_at_the_ends_and_no_other_does(dags: dict[str, Any]) -> None:
    stop = dags[PITR].get_task("stop_at_ends")
    assert (stop.upstream_task_ids, stop.downstream_task_ids) == ({"await_recovered"}, {"finish"})
    assert [dag_id for dag_id in (RESTORE, UNDO) if "stop_at_ends" in dags[dag_id].task_ids] == []
    for task_id in ("plan", "open_restore"):
        asked = dags[PITR].get_task(task_id).asked
        assert (asked["as_of"], asked["by"], asked["offsets"]) == ("{{ params.as_of }}", "{{ params.by }}", "exact")


def test_inputs_are_cut_where_they_are_only_when_that_was_said_with_everybody_who_reads_them(dags: dict[str, Any]) -> None:
    assert (dags[PITR].params["in_place"], dags[PITR].params["groups"]) == (False, "")
    for task_id in ("plan", "open_restore"):
        asked = dags[PITR].get_task(task_id).asked
        assert (asked["in_place"], asked["groups"]) == ("{{ params.in_place }}", "{{ params.groups }}")


def test_later_input_is_appended_once_after_the_approval_and_the_lock_goes_back(dags: dict[str, Any]) -> None:
    dag = dags[APPEND]
    check_order(dag, ["plan", "approve", "open_append", "append_records", "finish", "leave"])
    assert set(dag.task_ids) == {"plan", "approve", "open_append", "append_records", "finish", "leave"}
    assert dag.get_task("append_records").retries == 0
    assert dag.get_task("leave").is_teardown
    assert dag.get_task("open_append").is_setup
    assert dag.get_task("open_append").restore == "{{ ti.xcom_pull(task_ids='plan')['restore'] }}"
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("restore").resolve("../../x")


@pytest.mark.parametrize(
    "as_of", ["", "2026-11-21T12:00:00Z", "2026-11-21T12:00:00.5+01:00", "2026-11-21T12:00 Europe/Vienna", "2026-11-21T12:00Z"]
)
def test_a_moment_has_a_time_zone(dags: dict[str, Any], as_of: str) -> None:
    assert dags[PITR].params.get_param("as_of").resolve(as_of) == as_of


@pytest.mark.parametrize(
    "conf",
    [{"as_of": "2026-11-21T12:00:00"}, {"as_of": "2026-11-21"}, {"as_of": "yesterday"}, {"by": "offset"}, {"savepoint": "before:latest"}],
)
def test_what_is_no_moment_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[PITR].params.get_param(name).resolve(conf[name])


def test_an_audit_reads_before_it_concludes_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[VERIFY]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("0 3 * * 0", False, 1)
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


def test_an_expiry_is_shown_first_and_done_only_when_asked_for(dags: dict[str, Any]) -> None:
    dag = dags[EXPIRE]
    assert (dag.schedule, dag.max_active_runs, dag.params["apply"]) == (None, 1, False)
    assert dag.get_task("expire").upstream_task_ids == {"plan"}
    assert dag.get_task("expire").retries == 0


def test_a_reduction_publishes_only_what_its_job_has_proven_and_touches_no_application(dags: dict[str, Any]) -> None:
    dag = dags[COMPACT]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == (None, False, 1)
    assert dag.get_task("publish").get_flat_relative_ids(upstream=True) == {"plan", "reduce"}
    assert set(dag.task_ids) & DESTRUCTIVE == set()
    with pytest.raises((AirflowException, ValueError)):
        dag.params.get_param("savepoint").resolve("all")


def test_a_drill_is_weekly_and_needs_nobody(dags: dict[str, Any]) -> None:
    dag = dags[DRILL]
    assert (dag.schedule, dag.catchup, dag.max_active_runs) == ("0 4 * * 6", False, 1)
    assert "approve" not in dag.task_ids
    assert set(dag.params) == {"savepoint"}, "what gives up a safeguard is no param"


def test_a_drill_has_the_tasks_of_a_restore_and_works_on_an_application_of_its_own(dags: dict[str, Any]) -> None:
    drill, restore = dags[DRILL], dags[RESTORE]
    own = {"clear", "plan", "open_restore", "remove", "conclude"}
    assert set(drill.task_ids) - own == set(restore.task_ids) - {"plan", "approve", "open_restore", "abandon"}
    order = [
        "clear",
        "plan",
        "open_restore",
        *(name for name in restore.task_ids if name in set(drill.task_ids) - own),
        "remove",
        "conclude",
    ]
    assert len(order) == len(drill.task_ids)
    assert {task.application_name for task in drill.tasks} == {"order-processing:drill", "order-processing"}
    assert drill.get_task("conclude").application_name == "order-processing", "only the history is the application's own"
    for earlier, later in itertools.pairwise(["clear", "plan", "open_restore", "stop_application", "finish", "remove", "conclude"]):
        assert earlier in drill.get_task(later).get_flat_relative_ids(upstream=True), (earlier, later)
    for name in ("plan", "open_restore"):
        asked = drill.get_task(name).asked
        assert (asked["source"], asked["replace"], asked["safety"], asked["allow_ahead"]) == (
            "order-processing",
            "False",
            "required",
            "False",
        )
    assert "xcom_pull" in drill.get_task("open_restore").asked["savepoint"], "a newer savepoint must not change the plan"


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
        "cut_over": "switch.plan",
        "roll_back": "switch.plan",
        "offline_upgrade": "upgrade.plan",
    }
    assert set(dag.params.get_param("step").schema["enum"]) == set(choose.first_tasks)
    assert choose.downstream_task_ids == set(choose.first_tasks.values())
    for group in ("clone", "switch", "upgrade"):
        assert dag.get_task(f"{group}.approve").get_flat_relative_ids(upstream=True) == {"choose", f"{group}.plan"}
        assert dag.get_task(f"{group}.approve").defaults == ["Reject"]


def test_a_clone_is_made_by_the_tasks_of_a_restore_and_they_find_each_other_in_their_group(dags: dict[str, Any]) -> None:
    clone, restore = dags[CLONE], dags[RESTORE]
    made = {name.removeprefix("clone.") for name in clone.task_ids if name.startswith("clone.")}
    assert made == set(restore.task_ids)
    check_order(
        clone, [f"clone.{name}" for name in [*BEFORE, "load_records", "check_load", "compare_records", "verify_changelogs", *AFTER]]
    )
    assert "clone.plan" in clone.get_task("clone.open_restore").asked["savepoint"], "a newer savepoint must not change the plan"
    pulled = "ti.xcom_pull(task_ids='"
    for task in clone.tasks:
        for field in task.template_fields:
            for text in (value for value in flat(getattr(task, field, None)) if pulled in value):
                source = text.split(pulled)[1].split("'")[0]
                assert source in task.get_flat_relative_ids(upstream=True), (task.task_id, field, source)


def flat(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in flat(inner)]
    return [value] if isinstance(value, str) else []


def test_outputs_change_hands_only_between_a_stop_and_a_start(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    steps = ["plan", "approve", "open", "stop", "hand_over", "start_live", "await_live", "finish", "abandon"]
    check_order(dag, [f"switch.{name}" for name in steps])
    assert {dag.get_task(f"switch.{name}").retries for name in ("stop", "hand_over", "start_live")} == {0}
    assert dag.get_task("switch.abandon").is_teardown
    assert not dag.get_task("switch.abandon").on_failure_fail_dagrun, "else it would hide what failed"


def test_an_upgrade_brings_the_old_application_back_last_whatever_failed(dags: dict[str, Any]) -> None:
    dag = dags[CLONE]
    order = [
        "plan",
        "approve",
        "begin_savepoint",
        "quiesce",
        "capture_cut",
        "retire",
        "copy_records",
        "publish",
        "plan_restore",
        "open_restore",
    ]
    check_order(
        dag, [f"upgrade.{name}" for name in [*order, "wipe_state", "make_live", "start_application", "finish", "abandon", "bring_back"]]
    )
    back = dag.get_task("upgrade.bring_back")
    assert (back.is_teardown, back.retries, back.downstream_task_ids) == (True, 3, set())
    assert "upgrade.finish_savepoint" in back.get_flat_relative_ids(upstream=True), "it needs the lock that the savepoint gives back"
    assert dag.get_task("upgrade.begin_savepoint").mode == "stop"
    assert "resume" not in {name.removeprefix("upgrade.") for name in dag.task_ids}, "it stays down"


@pytest.mark.parametrize(
    "conf", [{"step": "cutover"}, {"max_lag": -1}, {"max_lag": "many"}, {"application": "nobody"}, {"savepoint": "before:latest"}]
)
def test_what_is_no_step_of_a_clone_never_becomes_a_run(dags: dict[str, Any], conf: dict[str, Any]) -> None:
    [name] = conf
    with pytest.raises((AirflowException, ValueError)):
        dags[CLONE].params.get_param(name).resolve(conf[name])
