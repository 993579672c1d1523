"""A cluster that no job would be submitted to is found before anything is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.config.loader import load_named
from streams_recovery.core.errors import Refused
from streams_recovery.core.kafka_types import QuiesceMode
from streams_recovery.core.preflight.findings import PreflightFinding, PreflightSeverity, blocking_finding, warning
from streams_recovery.core.remedies.remedy import as_refused
from streams_recovery.core.restore.request import Safeguards
from streams_recovery.operations import preflight
from streams_recovery.operations.context import open_context
from streams_recovery.operations.preflight import STRANGERS, _ahead, _once_settled, _spark
from tests.support.repository.golden import FIRST, SECOND, OpenGolden

KAFKA = {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9"}})}


def found(directory: Path, *, spark: dict[str, object] | None, **section: object):
    config = {
        "version": 1,
        "application": {"id": "app", "guarantee": "exactly_once_v2"},
        "spark": section,
        "backup": {"survive_cluster_loss": False},
        "topics": {"inputs": ["in"]},
        "storage": {"backend": "filesystem", "path": str(directory / "repository")},
        "runs": {"kind": "command", "command": {verb: ["true"] for verb in ("status", "stop", "start", "wipe")}},
    }
    (directory / "app.yaml").write_text(json.dumps(config))
    variables = KAFKA if spark is None else {**KAFKA, "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", **spark})}
    with open_context(load_named("app", directory, {}), EnvironmentConnections(variables)) as recovery:
        return _spark(recovery)


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


@pytest.mark.fault("F61")
def test_a_cluster_that_anybody_could_listen_to_stands_against_a_run(tmp_path):
    (obstacle,) = found(tmp_path, spark={"host": "spark://master", "port": 7077})
    assert (obstacle.severity, obstacle.kind) == (PreflightSeverity.BLOCKING, "spark")
    assert "spark://master:7077" in obstacle.text
    assert "spark.authenticate.secret" in obstacle.next_step


def test_one_with_a_secret_does_not_and_neither_does_one_that_the_configuration_trusts(tmp_path, settings):
    assert found(tmp_path, spark={"host": "spark://master", "port": 7077}, allow_insecure_rpc=True) == ()
    settings.write_text("spark.authenticate.secret abc\n")
    assert found(tmp_path, spark={"host": "spark://master", "port": 7077}) == ()


def test_pods_without_an_image_stand_against_a_run(tmp_path, settings):
    kubernetes = {"host": "k8s://https://cluster.example.com", "port": 6443}
    (blocker,) = found(tmp_path, spark=kubernetes)
    assert (blocker.severity, blocker.kind) == (PreflightSeverity.BLOCKING, "spark")
    assert "spark.kubernetes.container.image" in blocker.next_step
    settings.write_text("spark.kubernetes.container.image spark:4.2.0\n")
    assert found(tmp_path, spark=kubernetes) == ()


def test_a_connection_without_a_master_stands_against_a_run(tmp_path):
    (obstacle,) = found(tmp_path, spark={})
    assert "has no host" in obstacle.text


def test_of_no_connection_nothing_is_known(tmp_path):
    assert found(tmp_path, spark=None) == ()
    assert found(tmp_path, spark={"host": "local[2]"}) == ()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something blocks every run."""
    found = (PreflightFinding(severity=PreflightSeverity.BLOCKING, kind="spark", text="it is wrong", remedy=as_refused("mend it")),)
    for name in ("before_backup", "before_restore"):
        monkeypatch.setattr(preflight, name, lambda *_, **__: found)


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize(("mode", "held"), [(None, ""), (QuiesceMode.LIVE, " --mode live")])
def test_a_savepoint_that_is_blocked_names_the_command_that_looks_again(golden: OpenGolden, mode: QuiesceMode | None, held: str) -> None:
    with pytest.raises(Refused) as caught:
        preflight.required_for_backup(golden("good"), mode)
    assert caught.value.facts["findings"] == ["it is wrong: mend it"]
    assert (caught.value.commands, caught.value.exit_code) == ((f"streams-recovery preflight golden --for backup{held}",), 3)


@pytest.mark.usefixtures("blocked")
@pytest.mark.parametrize(
    ("chosen", "commands"), [(SECOND, (f"streams-recovery preflight golden --for restore --savepoint {SECOND}",)), (FIRST, ())]
)
def test_so_does_a_restore_of_a_savepoint_that_is_the_application_s_own(golden: OpenGolden, chosen: str, commands: tuple[str, ...]) -> None:
    recovery = golden("good")
    manifest = recovery.savepoints.read(chosen)
    recovery.repository.delete([recovery.layout.manifest(FIRST)])
    with pytest.raises(Refused) as caught:
        preflight.required_for_restore(recovery, manifest, Safeguards())
    assert caught.value.commands == commands


@pytest.mark.remedy("savepoint-clock")
def test_a_savepoint_of_a_time_that_has_not_come_is_told_of(golden: OpenGolden) -> None:
    recovery, ahead = golden("good"), "29991121T010203Z-0123456789"
    assert _ahead(recovery) == ()
    recovery.repository.create(recovery.layout.manifest(ahead), b"made up")
    (told,) = _ahead(recovery)
    assert (told.severity, ahead in told.text, "which clock was wrong" in told.next_step) == (PreflightSeverity.WARNING, True, True)


@pytest.mark.parametrize(("made", "waited"), [(warning, 0), (blocking_finding, 1)])
def test_only_what_would_refuse_waits_for_the_sessions_of_dead_members(made, waited):
    waits, strange = [], made(STRANGERS, "a member that no instance accounts for", as_refused("look for it"))
    assert _once_settled(lambda: (strange,), lambda: waits.append(1)) == (strange,)
    assert len(waits) == waited
