"""The wheel in somebody else's Airflow: the DAGs appear, a savepoint is taken, and everything that was lost comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from embedded.demo.checks import differences
from embedded.demo.disaster import destroy
from embedded.stack import APPLICATION
from examples.order_processing.truth import truth
from streams_recovery.core.waiting import poll
from streams_recovery.workflows.dags import shared_dags
from tests.support.airflow.connection_form import declared, shown
from tests.support.project import PROJECT
from tests.support.stack.dag_runs import Play
from tests.support.stack.installed import Environment, Installed, InstalledAirflow
from tests.support.stack.stage import stage
from tests.support.story import play_through

BACKUP, RESTORE = f"streams_backup_{APPLICATION}", "streams_restore_full"
# Of those that there are for each application.
OWN = ("backup", "check", "expire")
pytestmark = [pytest.mark.system, pytest.mark.deep, pytest.mark.timeout(3_600)]


@dataclass(frozen=True)
class Theirs:
    """Their Airflow, with the application that it saves."""

    play: Play
    airflow: InstalledAirflow
    environment: Environment


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    directory = tmp_path_factory.mktemp("theirs")
    environment = Environment.make(directory)
    with stage(directory / "stack", kind=Installed) as on:
        assert isinstance(on.stack, Installed)
        airflow = InstalledAirflow(on.stack, on.processes, environment)
        client = airflow.start()
        yield Theirs(Play(on, client), airflow, environment)
        client.close()


def test_an_application_is_saved_and_brought_back_by_the_wheel_alone(theirs: Theirs) -> None:
    play_through(STORY, theirs)


def the_program_finds_what_came_with_it(theirs: Theirs) -> None:
    found = json.loads(theirs.airflow.command("paths", "--json"))
    (packages,) = (theirs.environment.directory / "lib").glob("python*/site-packages")
    project = packages / "streams_recovery" / "project"
    assert (found["dags"], found["jobs"]) == (str(project / "dags"), str(project / "spark_jobs"))
    assert found["configurations"] == str(theirs.play.on.stack.directory / "airflow" / "include" / "configs")


def airflow_lists_provider_and_plugin(theirs: Theirs) -> None:
    providers = {found["package_name"] for found in theirs.play.airflow.get("/providers?limit=200")["providers"]}
    assert "kafka-streams-recovery" in providers
    plugins = {found["name"]: found["source"] for found in theirs.play.airflow.get("/plugins?limit=200")["plugins"]}
    assert "kafka-streams-recovery" in plugins["streams_recovery_plugin"]
    assert theirs.play.airflow.get("/plugins/importErrors")["import_errors"] == []


def a_connection_to_kafka_has_a_form_of_its_own(theirs: Theirs) -> None:
    assert shown(theirs.airflow.python) == declared()


def every_dag_appears(theirs: Theirs) -> None:
    wanted = {f"streams_{what}_{APPLICATION}" for what in OWN} | set(shared_dags())

    def appeared() -> bool | None:
        return True if wanted <= {found["dag_id"] for found in theirs.play.airflow.get("/dags?limit=200")["dags"]} else None

    assert poll(appeared, seconds=300, interval=1), theirs.play.airflow.get("/importErrors")
    assert theirs.play.airflow.get("/importErrors")["import_errors"] == []
    assert {found["bundle_name"] for found in theirs.play.airflow.get("/dags?limit=200")["dags"]} == {"streams-recovery"}


def its_processes_use_that_environment_and_nothing_of_the_checkout(theirs: Theirs) -> None:
    on, own, foreign = (
        theirs.play.on,
        str(theirs.environment.directory),
        tuple(f"{place}/" for place in (PROJECT, Path(sys.prefix).resolve())),
    )
    services = {name: pid for name, (pid, _) in on.processes.recorded().items() if name.startswith("airflow-")}
    assert len(services) == 4
    for name, pid in services.items():
        loaded = {mapped.path for mapped in psutil.Process(pid).memory_maps()}
        assert any(path.startswith(own) for path in loaded), name
        assert [path for path in loaded if path.startswith(foreign)] == [], name
        assert psutil.Process(pid).cwd() == str(on.stack.directory / "airflow")


def a_savepoint_is_taken(theirs: Theirs) -> None:
    run_id = theirs.play.succeed(BACKUP)
    summary = theirs.play.airflow.result(BACKUP, run_id, "publish")
    assert summary["consistency"] == "exact"
    assert summary["records"] > 0
    listed = json.loads(theirs.airflow.command("savepoints", "list", APPLICATION, "--json"))
    assert len(listed) == 1


def everything_that_was_lost_comes_back(theirs: Theirs) -> None:
    on = theirs.play.on
    topics = on.internal_topics()
    destroy(on.recovery)
    assert on.internal_topics() == []
    theirs.play.succeed(RESTORE, application=APPLICATION)
    assert on.internal_topics() == topics
    on.await_running()
    wrong = differences(on.recovery, truth(on.generator.world, range(on.generator.sent)))
    assert set(wrong.values()) == {0}, wrong
    assert on.held() == []


def every_task_had_a_machine_of_its_own(theirs: Theirs) -> None:
    used = {dag.name: [task.name.rpartition("-")[0] for task in dag.iterdir()] for dag in theirs.airflow.machines.iterdir()}
    assert {"begin", "copy_records", "publish", "finish"} <= set(used[BACKUP])
    assert {"plan", "load_records", "start_application", "finish"} <= set(used[RESTORE])
    assert [path for path in theirs.airflow.machines.rglob("TMPDIR/*") if path.is_file()] == []


STORY = (
    the_program_finds_what_came_with_it,
    airflow_lists_provider_and_plugin,
    a_connection_to_kafka_has_a_form_of_its_own,
    every_dag_appears,
    its_processes_use_that_environment_and_nothing_of_the_checkout,
    a_savepoint_is_taken,
    everything_that_was_lost_comes_back,
    every_task_had_a_machine_of_its_own,
)
