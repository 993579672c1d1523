"""Configuration files that cannot be used, as Airflow shows them: a DAG of their own, and every other application as before."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from streams_recovery.config.loader import load_application
from streams_recovery.workflows.dags import removed_dags
from tests.support.airflow.parsed_dags import OF_ALL
from tests.support.project import PROJECT

EXAMPLE = PROJECT / "include" / "configs" / "order-processing.yaml"
OWN = ("backup", "archive", "check", "expire", "drill", "run", "reprocess", "mirror")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STREAMS_RECOVERY_CONFIG_DIR", str(tmp_path))
    shutil.copy(EXAMPLE, tmp_path)
    return tmp_path


def parsed() -> dict[str, Any]:
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    for dag in bag.dags.values():
        DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        # As the process that parses hands it on: a text of a class of its own ends that process, and Airflow has no such DAG.
        msgspec.msgpack.encode(DagSerialization.to_dict(dag))
    return dict(bag.dags)


def failure(dag: Any) -> str:
    with pytest.raises(AirflowFailException) as failed:
        dag.get_task("check_configuration").execute({})
    return str(failed.value)


@pytest.mark.fault("F59")
def test_a_file_that_cannot_be_used_takes_only_its_own_application_away(metadata: None, directory: Path) -> None:
    (directory / "billing.yaml").write_text("version: 1\nversion: 1\n")
    (directory / "späte Daten.yaml").write_text("- no keys\n")
    found = parsed()
    other = next(dag_id for dag_id in found if dag_id.startswith("streams_configuration_sp"))
    assert set(found) == {
        *OF_ALL,
        *(f"streams_{what}_order-processing" for what in OWN),
        "streams_configuration_billing",
        other,
    }
    said = "billing.yaml:2: the key 'version' is there twice, first in line 1"
    dag = found["streams_configuration_billing"]
    assert said in dag.doc_md
    assert said in failure(dag)
    assert (dag.is_paused_upon_creation, dag.catchup, dag.schedule) == (False, False, "0 * * * *"), "nobody has to look for it"
    assert found["streams_restore_full"].params.get_param("application").schema["enum"] == ["order-processing"]

    (directory / "billing.yaml").unlink()
    dag.get_task("check_configuration").execute({})


@pytest.mark.parametrize(("enabled", "dag", "there"), [("true", "true", True), ("true", "false", False), ("false", "true", False)])
def test_where_no_dag_archives_there_is_none(metadata: None, directory: Path, enabled: str, dag: str, there: bool) -> None:
    known = "  enabled: ${STREAMS_RECOVERY_ARCHIVE:-false}\n"
    text = EXAMPLE.read_text()
    assert known in text
    (directory / EXAMPLE.name).write_text(text.replace(known, f"  enabled: {enabled}\n  dag: {dag}\n"))
    bag = DagBag(str(PROJECT / "dags" / "streams_archive.py"))
    assert (bag.import_errors, list(bag.dags)) == ({}, ["streams_archive_order-processing"] if there else [])
    assert ("streams_archive_order-processing" in removed_dags(load_application("order-processing"))) is not there


def test_files_that_contradict_each_other_take_both_away_and_nobody_else(metadata: None, directory: Path) -> None:
    third = (
        EXAMPLE.read_text().replace("order-process", "third-process").replace("build/stack", "build/third").replace("{ORDER_", "{THIRD_")
    )
    third = re.sub(r":-1808(\d)", r":-1809\1", third)
    (directory / "third-processing.yaml").write_text(third)
    (directory / "fourth.yaml").write_text(third.replace("name: third-processing", "name: fourth"))
    found = parsed()
    broken = {"streams_configuration_third-processing", "streams_configuration_fourth"}
    assert {dag_id for dag_id in found if dag_id not in OF_ALL} == {*(f"streams_{what}_order-processing" for what in OWN), *broken}
    for dag_id in broken:
        assert "both describe the application third-processor on kafka_default" in failure(found[dag_id])


def test_with_no_usable_file_every_way_back_is_still_parsed(metadata: None, directory: Path) -> None:
    (directory / EXAMPLE.name).write_text("")
    assert set(parsed()) == {*OF_ALL, "streams_configuration_order-processing"}
