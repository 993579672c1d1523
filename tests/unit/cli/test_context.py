"""Connections from the environment, and what works without one: when the cluster is lost, the repository can be read all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.context import EnvironmentConnections
from streams_recovery.core.errors import ConfigInvalid, NotFound
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from tests.support.repository.state_repository import FIRST, SECOND, environment, fill

URIS = EnvironmentConnections(
    {
        "AIRFLOW_CONN_KAFKA_DEFAULT": "kafka://broker:9093",
        "AIRFLOW_CONN_AWS_DEFAULT": "aws://AKIA:secret@",
        "AIRFLOW_CONN_CLUSTER": "spark://spark-master:7077?deploy-mode=client",
        "AIRFLOW_CONN_HERE": "spark://local%5B2%5D?deploy-mode=cluster&queue=hunter3",
        "AIRFLOW_CONN_BROKEN": '{"password": "hunter2',
    }
)


def test_every_kind_of_connection_can_be_a_uri(caplog: pytest.LogCaptureFixture) -> None:
    assert URIS.kafka("kafka_default").bootstrap_servers == "broker:9093"
    key = URIS.storage("aws_default", "s3")
    assert key is not None
    assert key.options["access_key_id"] == "AKIA"
    assert URIS.spark_master("cluster") == "spark://spark-master:7077"
    assert caplog.records == []


def test_what_only_airflow_s_own_submit_understands_is_named(caplog: pytest.LogCaptureFixture) -> None:
    assert URIS.spark_master("here") == "local[2]"
    assert caplog.messages == ["connection here: ignored deploy-mode, queue: this software does not use them"]


def test_a_connection_that_cannot_be_read_or_is_not_there_names_its_variable() -> None:
    with pytest.raises(ConfigInvalid) as broken:
        URIS.kafka("broken")
    assert broken.value.facts["variable"] == "AIRFLOW_CONN_BROKEN"
    assert "hunter2" not in str(broken.value)
    with pytest.raises(NotFound) as missing:
        URIS.kafka("other")
    assert missing.value.facts["variable"] == "AIRFLOW_CONN_OTHER"


RESTORE = "20261121T020000Z-0123456789"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Commands of an operator who has no Kafka connection any more."""
    fill(tmp_path)
    repository = Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository")))
    journal = AppendLog(repository, Layout("shop").journal(RESTORE), JournalEntry)
    journal.append(JournalEntry(phase=Phase.OPENED, at=1, created=()))
    bare = {name: value for name, value in environment().items() if "KAFKA" not in name}
    return lambda *words: CliRunner().invoke(app, [*words, "--configs", str(tmp_path)], env={**bare, "COLUMNS": "220"})


READS = [
    ("savepoints", "list", "shop"),
    ("savepoints", "show", "shop", SECOND),
    ("savepoints", "keep", "shop", FIRST, "--reason", "a test"),
    ("offsets", "show", "shop"),
    ("drills", "shop"),
    ("reprocessed", "shop"),
    ("state", "show", "shop", "totals", "--savepoint", SECOND),
    ("state", "get", "shop", "totals", "alice"),
    ("state", "records", "shop", "shop-totals-changelog", "--savepoint", SECOND),
    ("state", "diff", "shop", "totals", SECOND, SECOND),
    ("verify", "shop", "--level", "structure"),
    ("expire", "shop", "--plan"),
    ("compact", "shop", SECOND, "--plan"),
    ("compact", "shop", SECOND, "--how", "small-files", "--plan"),
    ("dismiss", "shop", RESTORE, "--plan"),
    ("unlock", "shop", "nobody"),
]


@pytest.mark.parametrize("words", READS, ids=lambda words: " ".join(words[: 1 + words.index("shop")]))
def test_whatever_only_reads_the_repository_needs_no_kafka_connection(run: Run, words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.exception, done.exit_code) == (None, 0), done.output


def test_evidence_is_looked_for_in_the_repository(run: Run) -> None:
    with pytest.raises(NotFound, match="no evidence") as caught:
        raise run("evidence", "shop").exception or AssertionError
    assert caught.value.facts == {"restore": "latest"}


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "shop", "--savepoint", SECOND, "--plan"),
        ("advise", "shop"),
        ("groups", "describe", "shop"),
        ("groups", "list", "shop"),
        ("state", "records", "shop", "orders"),
    ],
    ids=lambda words: " ".join(words[: 1 + words.index("shop")]),
)
def test_what_needs_the_cluster_names_the_connection_that_is_missing(run: Run, words: tuple[str, ...]) -> None:
    with pytest.raises(NotFound, match="connection kafka_default is not defined"):
        raise run(*words).exception or AssertionError


def test_without_a_connection_for_spark_jobs_run_on_this_machine_and_one_that_was_named_is_needed():
    assert EnvironmentConnections({}).spark_master("spark_default") == "local[*]"
    assert (
        EnvironmentConnections({"AIRFLOW_CONN_SPARK_DEFAULT": "spark://master:7077"}).spark_master("spark_default") == "spark://master:7077"
    )
    with pytest.raises(NotFound, match="connection spark_large is not defined"):
        EnvironmentConnections({}).spark_master("spark_large")
