"""The command line as a person in trouble meets it: one sentence, its exit code, and nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.ports import free_ports
from examples.order_processing.generator import create_topics
from streams_recovery.core.kafka_types import TopicPartition
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.repository import Repository
from tests.support.applications.savepoint_steps import publish
from tests.support.applications.small import Small
from tests.support.kafka.topic_settings import alter
from tests.support.project import PROJECT

NAME = "order-processing"
ID = "20261121T012345Z-0123456789"
MISSING = object()


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture(scope="module")
def with_topics(bootstrap: str) -> str:
    """The broker, with the example's topics on it."""
    create_topics(bootstrap)
    return bootstrap


@pytest.fixture
def command(tmp_path: Path, with_topics: str) -> Command:
    """Runs one command against a fresh repository and the example's configuration; keywords replace environment variables."""

    def run(*arguments: str, **changes: str | object) -> Outcome:
        base = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "STREAMS_RECOVERY"))}
        environment: dict[str, str | object] = {
            **base,
            "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
            "COLUMNS": "1000",
            "STREAMS_RECOVERY_CONFIG_DIR": str(PROJECT / "include" / "configs"),
            "STREAMS_RECOVERY_STACK": str(tmp_path),
            "AIRFLOW_CONN_KAFKA_DEFAULT": kafka(with_topics),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            **changes,
        }
        done = subprocess.run(
            [sys.executable, "-m", "streams_recovery", *arguments],
            env={name: str(value) for name, value in environment.items() if value is not MISSING},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


def kafka(bootstrap: str) -> str:
    return json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}})


def stored(tmp_path: Path) -> list[Path]:
    """Every object in the repository."""
    return [path for path in (tmp_path / "repository").rglob("*") if path.is_file()]


def expect(outcome: Outcome, code: int, *sentences: str) -> None:
    assert outcome.code == code, outcome
    for sentence in sentences:
        assert sentence in outcome.err
    assert "Next: " in outcome.err
    assert "Traceback" not in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1, "one sentence, and no noise of a library"
    assert outcome.out == ""


@pytest.mark.deep
@pytest.mark.parametrize("verb", [["backup"], ["savepoints", "list"], ["restore", "--plan"], ["restore", "--reason", "x"]])
def test_an_unknown_application(command: Command, tmp_path: Path, verb: list[str]) -> None:
    expect(command(*verb, "nobody"), 4, "nobody", NAME)
    assert stored(tmp_path) == []


def test_malformed_yaml_is_named_with_its_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "broken.yaml").write_text("version: 1\nname: broken\ntopics: {inputs: [a]\n")
    expect(command("backup", "broken", "--configs", str(tmp_path / "configs")), 2, "broken.yaml:4: ")


@pytest.mark.deep
@pytest.mark.fault("F6")
def test_a_broker_that_is_down(command: Command, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    outcome = command("backup", NAME, AIRFLOW_CONN_KAFKA_DEFAULT=kafka(address))
    expect(outcome, 7, address)
    assert [path.name for path in stored(tmp_path) if "savepoints" in path.parts] == []


@pytest.mark.deep
def test_a_connection_nobody_defined(command: Command) -> None:
    expect(
        command("backup", NAME, AIRFLOW_CONN_KAFKA_DEFAULT=MISSING),
        4,
        "connection kafka_default is not defined",
        "AIRFLOW_CONN_KAFKA_DEFAULT",
    )


@pytest.mark.deep
def test_what_only_reads_the_repository_needs_no_connection(command: Command) -> None:
    restore = ("restore", NAME, "--reason", "x")
    expect(command(*restore, AIRFLOW_CONN_KAFKA_DEFAULT=MISSING), 4, "order-processor has no exact savepoint", "take one first")
    expect(command(*restore, AIRFLOW_CONN_SPARK_DEFAULT=MISSING), 4, "order-processor has no exact savepoint", "take one first")


@pytest.mark.deep
def test_a_repository_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    expect(command("backup", NAME, STREAMS_RECOVERY_STACK=str(tmp_path / "file")), 2, str(tmp_path / "file" / "repository"))


@pytest.mark.deep
def test_no_savepoint_yet(command: Command, tmp_path: Path) -> None:
    listed = command("savepoints", "list", NAME, "--json")
    assert (listed.code, json.loads(listed.out)) == (0, [])
    expect(command("verify", NAME), 4, "order-processor has no savepoint")
    for verb in (["restore", NAME, "--plan"], ["restore", NAME, "--reason", "x", "--approve", "0"]):
        expect(command(*verb), 4, "order-processor has no exact savepoint", "take one first")
    assert stored(tmp_path) == []


@pytest.mark.deep
def test_a_savepoint_that_does_not_exist(command: Command) -> None:
    expect(command("savepoints", "show", NAME, ID), 4, f"there is no savepoint {ID}", "newest: none")
    expect(command("restore", NAME, "--plan", "--savepoint", ID), 4, f"there is no savepoint {ID}")


@pytest.mark.deep
def test_segments_without_a_manifest_are_no_savepoint(command: Command, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    layout = Layout("order-processor")
    repository.create(layout.segment(TopicPartition("order-processor-order-totals-changelog", 0), 0, 9, "a"), b"rows")
    repository.create(layout.work(ID, "cut"), b"{}")
    assert json.loads(command("savepoints", "list", NAME, "--json").out) == []
    expect(command("restore", NAME, "--plan", "--savepoint", ID), 4, "one without a manifest was never finished and cannot be used")


@pytest.mark.deep
def test_a_manifest_that_is_damaged(command: Command, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))).create(
        Layout("order-processor").manifest(ID), b"x"
    )
    expect(command("savepoints", "show", NAME, ID), 6, "manifest.json.zst is not a compressed manifest")
    (listed,) = json.loads(command("savepoints", "list", NAME, "--json").out)
    assert listed["savepoint_id"] == ID
    assert "not a compressed manifest" in listed["damaged"]
    assert listed["survives_cluster_loss"] is False
    assert "damaged" in command("savepoints", "list", NAME).out
    checked = command("verify", NAME, "--json")
    assert checked.code == 27
    report = json.loads(checked.out)
    assert (report["good"], report["savepoints"], len(report["findings"])) == (False, 0, 1)
    assert ID in report["findings"][0]["savepoints"]


@pytest.mark.deep
@pytest.mark.fault("F55")
def test_a_moment_that_is_none_or_that_nothing_fits(command: Command, tmp_path: Path) -> None:
    expect(command("restore", NAME, "--plan", "--as-of", "2026-11-21T12:00:00"), 2, "has no time zone")
    expect(command("restore", NAME, "--reason", "x", "--as-of", "configured"), 2, "no moment is given")
    expect(
        command("restore", NAME, "--plan", "--as-of", "2026-11-21T12:00:00Z", "--by", "position"), 3, "has the records of all its inputs"
    )
    assert stored(tmp_path) == []


@pytest.mark.deep
def test_a_level_that_does_not_exist(command: Command) -> None:
    expect(command("verify", NAME, "--level", "half"), 2, "'half' is no level")


def test_usage_errors_are_told_apart(command: Command) -> None:
    for arguments, told in (
        (("restore", NAME), "Missing option '--reason'"),
        (("backup", NAME, "--mode", "sleep"), "'sleep' is not one of"),
    ):
        outcome = command(*arguments)
        assert (outcome.code, outcome.out) == (2, ""), outcome
        assert told in outcome.err


@pytest.mark.deep
def test_without_a_command_all_are_listed(command: Command) -> None:
    outcome = command()
    assert (outcome.code, outcome.out) == (2, "")
    for verb in ("backup", "restore", "savepoints", "offsets", "verify"):
        assert verb in outcome.err


@pytest.mark.deep
def test_a_warning_of_a_savepoint_is_told_once(small: Small, bootstrap: str, tmp_path: Path) -> None:
    """Of an application that has nothing new, so that no job is submitted."""
    recovery = small.recovery
    for name in (small.changelog.topic, small.input.topic):
        alter(recovery.cluster, {name: {"message.timestamp.type": "LogAppendTime"}})
    publish(small)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]),
        "COLUMNS": "1000",
        "AIRFLOW_CONN_KAFKA_DEFAULT": kafka(bootstrap),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
    }
    done = subprocess.run(
        [sys.executable, "-m", "streams_recovery", "backup", "small", "--configs", str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, len(recovery.savepoints.ids())) == (0, 2), done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert told
    assert [done.stderr.count(line.removeprefix("warning: ")) for line in told] == [1] * len(told)


def test_the_monitor_looks_without_airflow_and_what_it_saw_is_stored(command: Command) -> None:
    assert "not looked at yet" in command("info", NAME).out
    looked = command("monitor", NAME)
    assert looked.code == 0, looked
    assert f"{NAME}: status: " in looked.out
    told = command("info", NAME).out
    assert "looked at: " in told
    assert "not looked at yet" not in told
    report = json.loads(command("monitor", NAME, "--json").out)
    assert report["failed"] == {}
    assert report["applications"][NAME]["parts"]["cluster"]["problem"] is None


def test_a_monitor_that_goes_on_reads_the_configuration_anew_until_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("version: 1")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT / "plugins"), str(PROJECT)]), "COLUMNS": "1000"}
    program = [sys.executable, "-m", "streams_recovery", "monitor", "--every", "1", "--configs", str(tmp_path)]
    with subprocess.Popen(program, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as monitor:
        assert monitor.stderr is not None
        seen = [line for line, _ in zip((line for line in monitor.stderr if "ConfigInvalid" in line), range(2), strict=False)]
        monitor.terminate()
        assert monitor.wait(timeout=60) == 143
    assert len(seen) == 2, "it looked again"
