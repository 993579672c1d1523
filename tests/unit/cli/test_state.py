"""The commands as a person or a script uses them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner, Result

from streams_recovery.cli.app import app
from streams_recovery.cli.state import DIFFERENT, NOTHING_COMPARED
from streams_recovery.core.errors import ConfigInvalid
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.repository.state_repository import FIRST, SECOND, T0, environment, fill

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)
    runner = CliRunner()
    return lambda command, *arguments: runner.invoke(
        app, [command, "shop", *arguments, "--configs", str(tmp_path)], env={**environment(), "COLUMNS": "220"}
    )


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_store_is_shown(run: Run) -> None:
    shown = run("state", "totals", "--savepoint", SECOND)
    assert shown.exit_code == 0
    assert '{"count":100}' in shown.stdout
    assert "trace=78, trace=null" in shown.stdout
    assert f"5 rows of store totals in {SECOND}, 3 partitions" in " ".join(shown.stderr.split())


def test_rows_of_a_key_and_the_first_rows(run: Run) -> None:
    (row,) = lines(run("state", "totals", "--savepoint", SECOND, "--format", "json", "--key", "alice"))
    assert (row["key"], row["value"], row["timestamp"]) == ("alice", {"count": 100}, T0 + 60)
    assert len(lines(run("state", "minutes", "--savepoint", SECOND, "--format", "json", "--limit", "2"))) == 2
    assert [row["value"] for row in lines(run("state", "numbers", "--savepoint", SECOND, "--format", "json", "--key", "1"))] == ["nan"]
    assert [row["key"] for row in lines(run("state", "raw", "--savepoint", SECOND, "--format", "json", "--key", "ff00"))] == ["ff00"]
    none = run("state", "totals", "--savepoint", SECOND, "--format", "json", "--key", "nobody")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "0 rows of store totals" in none.stderr


def test_the_newest_savepoint_with_state_is_the_default(run: Run) -> None:
    assert {row["key"] for row in lines(run("state", "totals", "--format", "json"))} == {"alice", "carol", "erin", "gül", "zoe"}


def test_deleted_keys_have_no_value(run: Run) -> None:
    rows = lines(run("state", "totals", "--savepoint", SECOND, "--format", "json", "--deleted"))
    assert {row["key"] for row in rows if "value" not in row} == {"bob", "dora"}
    assert {row["key"] for row in rows if row.get("value", "") is None} == {"zoe"}, "a document that is null is a value"


def test_files(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert run("state", "minutes", "--savepoint", SECOND, "--format", "parquet", "--out", str(out)).exit_code == 0
    assert duckdb.sql(f"SELECT sum(value) FROM '{out}'").fetchall() == [(15,)]
    again = run("state", "minutes", "--savepoint", SECOND, "--format", "parquet", "--out", str(out))
    assert isinstance(again.exception, ConfigInvalid)
    text = run("state", "sessions", "--savepoint", SECOND, "--format", "csv").stdout
    assert {(row["key"], row["value"]) for row in csv.DictReader(io.StringIO(text))} == {("alice", "3"), ("bob", "1")}
    for wrong in (["--format", "parquet"], ["--out", str(tmp_path / "x")]):
        assert isinstance(run("state", "totals", "--savepoint", SECOND, *wrong).exception, ConfigInvalid)


def test_equal_different_and_nothing_compared_are_three_exit_codes(run: Run) -> None:
    equal = run("state-diff", "totals", SECOND, SECOND)
    assert equal.exit_code == 0
    assert "5 keys compared" in equal.stderr
    different = run("state-diff", "totals", FIRST, SECOND)
    assert different.exit_code == DIFFERENT
    assert "1 changed, 1 added, 1 removed" in " ".join(different.stderr.split())
    assert "zoe" in different.stdout
    nothing = run("state-diff", "empty", FIRST, SECOND)
    assert nothing.exit_code == NOTHING_COMPARED
    assert "nothing was compared" in nothing.stderr
    assert len({0, DIFFERENT, NOTHING_COMPARED}) == 3


def test_a_comparison_as_json(run: Run) -> None:
    found = run("state-diff", "totals", FIRST, SECOND, "--json", "--limit", "1")
    plain = json.loads(found.stdout)
    assert found.exit_code == DIFFERENT
    assert plain["counts"] == {"before": 5, "after": 5, "compared": 6, "added": 1, "removed": 1, "changed": 1}
    assert len(plain["differences"]) == 1
    everything = json.loads(run("state-diff", "totals", FIRST, SECOND, "--json", "--limit", "0").stdout)["differences"]
    carol = next(row for row in everything if row["change"] == "changed")
    assert (carol["before"]["value"], carol["after"]["value"], carol["parts"]) == (
        {"count": 2, "sum": 1.5},
        {"count": 7},
        ["value", "timestamp"],
    )


def test_a_list_says_of_each_savepoint_whether_it_survives_the_loss_of_the_cluster(run: Run, tmp_path: Path) -> None:
    arguments = ["savepoints", "list", "shop", "--configs", str(tmp_path)]
    store = SavepointStore(Repository(StorageLocation(backend="filesystem", path=str(tmp_path / "repository"))), Layout("shop"))
    first = store.read(FIRST)
    whole = "20261121T090000Z-0000000009"
    store.publish(replace(first, savepoint_id=whole, topics=tuple(topic for topic in first.topics if "totals" in topic.name)))
    listed = {one["savepoint_id"]: one for one in json.loads(CliRunner().invoke(app, [*arguments, "--json"], env=environment()).stdout)}
    assert {name: one["survives_cluster_loss"] for name, one in listed.items()} == dict.fromkeys(listed, False) | {whole: True}
    assert listed[FIRST]["lost_with_cluster"][:2] == [
        "the records of orders are not archived",
        "offsets 0..9 of shop-holey-changelog-0 are missing: gone",
    ]
    assert listed[whole]["lost_with_cluster"] == []
    table = CliRunner().invoke(app, arguments, env={**environment(), "COLUMNS": "220"}).stdout
    assert "survives cluster loss" in table
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    assert {row[0]: row[4] for row in rows} == dict.fromkeys(listed, "no") | {whole: "yes"}


def test_an_edited_table_is_written_back(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    assert run("state", "totals", "--savepoint", SECOND, "--format", "json", "--out", str(table)).exit_code == 0
    table.write_text(table.read_text(encoding="utf-8").replace('{"count": 100}', '{"count": 101}'), encoding="utf-8")
    arguments = ("totals", "--from", str(table), "--savepoint", SECOND, "--reason", "recount")
    dry = run("state-write", *arguments, "--plan")
    assert dry.exit_code == 0
    assert "4 keys as they were, 1 changed, 0 added, 0 removed" in dry.stderr
    assert "nothing was written" in dry.stderr
    made = json.loads(run("state-write", *arguments, "--json").stdout)
    differences = run("state-diff", "totals", SECOND, made["savepoint_id"])
    assert differences.exit_code == DIFFERENT
    assert "1 changed, 0 added, 0 removed" in " ".join(differences.stderr.split())
    listed = CliRunner().invoke(app, ["savepoints", "list", "shop", "--configs", str(tmp_path), "--json"], env=environment())
    assert [one["consistency"] for one in json.loads(listed.stdout) if one["savepoint_id"] == made["savepoint_id"]] == ["edited"]
