"""The DAG files as the installed Airflow sees them: which there are, and what holds for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID
from airflow.serialization.serialized_objects import DagSerialization

from streams_recovery.core.panels import GROUPS, DagGroup
from streams_recovery.triggers.application import WatchTrigger
from streams_recovery.workflows.dags import shared_dags
from tests.support.airflow.parsed_dags import (
    ARCHIVE,
    BACKUP,
    CLONE,
    COMPACT,
    LOOKS,
    MIRROR,
    MONITOR,
    NAME,
    OF_ALL,
    PER_APPLICATION,
    PITR,
    REBUILD,
    REPROCESS,
    RESTORE,
    UNDO,
    WAYS_BACK,
    parsed_dags,
)
from tests.support.project import PROJECT


def test_there_is_a_backup_and_its_upkeep_for_every_application_and_one_of_each_way_back(dags: dict[str, Any]) -> None:
    assert set(dags) == {*PER_APPLICATION, *OF_ALL}


@pytest.mark.parametrize("dag_id", [*PER_APPLICATION, *OF_ALL])
def test_serialises_and_has_the_same_tasks_afterwards(dags: dict[str, Any], dag_id: str) -> None:
    dag = dags[dag_id]
    # As the process that parses hands it on.
    msgspec.msgpack.encode(DagSerialization.to_dict(dag))
    again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
    assert set(again.task_ids) == set(dag.task_ids)


def test_a_dag_of_one_application_has_one_run_at_a_time_and_one_of_all_has_many(dags: dict[str, Any]) -> None:
    # A run that waits for its approval would keep every other application of the company from being restored.
    runs = dict.fromkeys((*PER_APPLICATION, MONITOR), 1) | dict.fromkeys((*WAYS_BACK, *LOOKS), 32)
    assert {dag_id: dag.max_active_runs for dag_id, dag in dags.items()} == runs


def test_no_dag_is_paused_when_it_appears(dags: dict[str, Any]) -> None:
    # A run that is triggered on a paused DAG waits for ever, and nobody is told of a backup that never runs.
    assert {dag_id for dag_id, dag in dags.items() if dag.is_paused_upon_creation is not False} == set()


def test_only_a_backup_runs_at_once_and_the_others_when_they_are_due(dags: dict[str, Any]) -> None:
    # A check or a drill of a repository that is still empty could only fail.
    scheduled = {dag_id for dag_id in PER_APPLICATION if dags[dag_id].schedule is not None and dag_id != REPROCESS}
    assert {dag_id for dag_id in scheduled if dags[dag_id].start_date is not None} == {BACKUP, ARCHIVE}


def test_every_schedule_is_in_utc_whatever_zone_airflow_has(dags: dict[str, Any]) -> None:
    # Of one that follows Airflow's own zone nothing is in its timetable, and the docs promise UTC for all.
    timed = {dag_id: dag for dag_id, dag in dags.items() if dag.schedule not in (None, "@continuous") and dag_id != MIRROR}
    fixed = {dag_id: getattr(dag.schedule, "timezone", None) for dag_id, dag in timed.items()}
    own = {dag_id for dag_id, zone in fixed.items() if zone is None and dags[dag_id].start_date is None}
    assert own == set()
    assert {str(zone) for zone in fixed.values() if zone is not None} == {"UTC"}
    assert {str(dags[dag_id].start_date.tzinfo) for dag_id, zone in fixed.items() if zone is None} == {"UTC"}


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
        COMPACT: ([f"savepoints/{NAME}"], ["streams-recovery/savepoints"]),
        CLONE: ([], ["streams-recovery/savepoints"]),
        **dict.fromkeys(
            (RESTORE, UNDO, REBUILD, PITR, "streams_restore_topics", "streams_restore_rescale", "streams_failover", "streams_upgrade"),
            ([f"savepoints/{NAME}"], ["streams-recovery/restores"]),
        ),
    }


def reports(dags: dict[str, Any]) -> dict[str, Any]:
    return {dag_id: task for dag_id, dag in dags.items() for task in dag.tasks if task.task_id.rpartition(".")[2] == "report"}


def test_what_a_sensor_waits_for_survives_the_way_to_the_triggerer() -> None:
    facts = {"ends": {"in 0": 5}, "until": None}
    wanted = {"application_name": "a", "watch": "ends_reached", "facts": facts, "interval": 5.0, "settle": 10.0}
    path, told = WatchTrigger(**wanted).serialize()  # type: ignore[arg-type]
    assert (path, told) == ("streams_recovery.triggers.application.WatchTrigger", wanted)


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


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two configurations."""
    for name in ("one", "two"):
        config = {
            "version": 1,
            "application": {"id": name, "guarantee": "exactly_once_v2"},
            "topics": {"inputs": [f"{name}.in"]},
            "storage": {"backend": "filesystem", "path": str(tmp_path / "repository")},
            "backup": {"survive_cluster_loss": True, "consistency": {"mode": "stop"}},
            "archive": {"enabled": True, "interval": "PT1S"},
            "compact": {"schedule": "0 1 * * *"},
            "run": {"schedule": "0 2 * * *"},
            "runs": {"kind": "command", "command": {verb: ["true", name] for verb in ("status", "stop", "start", "wipe")}},
        }
        (tmp_path / f"{name}.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("STREAMS_RECOVERY_CONFIG_DIR", str(tmp_path))
    return tmp_path


def drawn(kind: str) -> dict[str, Any]:
    bag = DagBag(str(PROJECT / "dags" / f"streams_{kind}.py"))
    assert bag.import_errors == {}
    return {dag_id: DagSerialization.to_dict(dag) for dag_id, dag in bag.dags.items()}


@pytest.mark.usefixtures("metadata")
@pytest.mark.parametrize("kind", ["archive", "backup", "check", "expire"])
def test_a_file_that_is_read_for_a_task_draws_the_dag_of_the_task_alone(kind: str, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With a hundred applications each task would read a hundred configurations.
    of_all, one = drawn(kind), f"streams_{kind}_one"
    assert set(of_all) == {one, f"streams_{kind}_two", *({f"streams_{kind}"} & {*shared_dags()})}
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, one)
    assert drawn(kind) == {one: of_all[one]}
    (two / "one.yaml").write_text("version: 1")
    assert one not in drawn(kind), "the configuration cannot be used any more"


def test_a_dag_has_the_tag_of_its_group(dags: dict[str, Any]) -> None:
    groups = {*DagGroup}
    found = {dag_id: {*dag.tags} & groups for dag_id, dag in dags.items()}
    assert found == {dag_id: {GROUPS[dag_id.removesuffix(f"_{NAME}")]} for dag_id in dags}


def off(directory: Path, name: str, *groups: DagGroup) -> None:
    """Switch these groups off for an application, and the schedules of their DAGs."""
    file = directory / f"{name}.yaml"
    config = json.loads(file.read_text())
    config |= {section: {"schedule": None} for section in ("check", "retention", "compact", "monitor")}
    config["backup"]["schedule"], config["run"]["schedule"], config["archive"]["dag"] = None, None, False
    file.write_text(json.dumps(config | {"dags": {"without": groups}, "access": {"own_dags": True}}))


@pytest.mark.usefixtures("metadata")
@pytest.mark.parametrize("group", DagGroup)
def test_a_group_that_one_application_has_switched_off_is_there_for_the_other_one(group: DagGroup, two: Path) -> None:
    off(two, "one", group)
    own = {f"{dag_id}_one" for dag_id in GROUPS}
    found = parsed_dags()
    assert found.keys() & own == {f"{dag_id}_one" for dag_id, its in GROUPS.items() if its is not group} & found.keys()
    shared = {dag_id for dag_id in (*shared_dags(), MONITOR) if GROUPS[dag_id] is group}
    assert shared <= found.keys()
    for dag_id in shared - {MONITOR, CLONE}:
        offered = found[dag_id].params.get_param("application").schema["enum"]
        assert offered == ["two"], dag_id
        if "source" in found[dag_id].params:
            assert "one" in found[dag_id].params.get_param("source").schema["enum"], "its savepoints can be read"


@pytest.mark.usefixtures("metadata")
@pytest.mark.parametrize("group", DagGroup)
def test_a_group_that_all_have_switched_off_is_gone_and_no_other_one(group: DagGroup, two: Path) -> None:
    for name in ("one", "two"):
        off(two, name, *(one for one in DagGroup if one is not group))
    found = {dag_id.removesuffix("_one").removesuffix("_two") for dag_id in parsed_dags()}
    assert {GROUPS[dag_id] for dag_id in found} == {group}
    assert {*shared_dags(), MONITOR} & {dag_id for dag_id, its in GROUPS.items() if its is group} <= found


@pytest.mark.usefixtures("metadata")
def test_the_monitor_is_there_while_a_file_cannot_be_used(two: Path) -> None:
    for name in ("one", "two"):
        off(two, name, GROUPS[MONITOR])
    assert MONITOR not in parsed_dags()
    (two / "two.yaml").write_text("version: 1\nnonsense: 1\n")
    assert MONITOR in parsed_dags(), "it tells of that file, whose groups nobody knows"


@pytest.mark.usefixtures("metadata", "two")
def test_the_tasks_of_the_monitor_do_not_read_all_configurations_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    [[scheduled]] = [[found["dag"] for found in drawn("monitor").values()]]
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, MONITOR)
    [[for_a_task]] = [[found["dag"] for found in drawn("monitor").values()]]
    assert for_a_task["tasks"] == scheduled["tasks"]
    assert for_a_task["timetable"] != scheduled["timetable"]
