"""When the cluster is lost, and with it every connection to it, the repository can be read all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.core.errors import NotFound
from streams_recovery.core.repository.journal import JournalEntry, Phase
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.append_log import AppendLog
from streams_recovery.storage.repository import Repository
from tests.support.repository.state_repository import FIRST, SECOND, environment, fill

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
    ("state", "shop", "totals", "--savepoint", SECOND),
    ("state-diff", "shop", "totals", SECOND, SECOND),
    ("verify", "shop", "--level", "structure"),
    ("expire", "shop", "--plan"),
    ("compact", "shop", SECOND, "--plan"),
    ("merge", "shop", SECOND, "--plan"),
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


def test_what_needs_the_cluster_names_the_connection_that_is_missing(run: Run) -> None:
    with pytest.raises(NotFound, match="connection kafka_default is not defined"):
        raise run("restore", "shop", "--savepoint", SECOND, "--plan").exception or AssertionError
