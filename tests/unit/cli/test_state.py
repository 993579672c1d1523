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
from streams_recovery.core.errors import ConfigInvalid, NotFound, Refused
from streams_recovery.core.repository.layout import Layout, StorageLocation
from streams_recovery.storage.repository import Repository
from streams_recovery.storage.savepoints import SavepointStore
from tests.support.repository.state_repository import FIRST, SECOND, environment, fill

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    fill(tmp_path)
    runner = CliRunner()
    return lambda command, *arguments: runner.invoke(
        app, ["state", command, "shop", *arguments, "--configs", str(tmp_path)], env={**environment(), "COLUMNS": "220"}
    )


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_store_is_shown(run: Run) -> None:
    shown = run("show", "totals", "--savepoint", SECOND)
    assert shown.exit_code == 0
    assert '{"count":100}' in shown.stdout
    assert "trace=78, trace=null" in shown.stdout
    assert f"5 rows of store totals in {SECOND}, 3 partitions" in " ".join(shown.stderr.split())


def test_the_first_rows(run: Run) -> None:
    assert len(lines(run("show", "minutes", "--savepoint", SECOND, "--json", "--limit", "2"))) == 2


def test_the_newest_savepoint_with_state_is_the_default(run: Run) -> None:
    assert {row["key"] for row in lines(run("show", "totals", "--json"))} == {"alice", "carol", "erin", "gül", "zoe"}


def test_deleted_keys_have_no_value(run: Run) -> None:
    rows = lines(run("show", "totals", "--savepoint", SECOND, "--json", "--deleted"))
    assert {row["key"] for row in rows if "value" not in row} == {"bob", "dora"}
    assert {row["key"] for row in rows if row.get("value", "") is None} == {"zoe"}, "a document that is null is a value"


def test_files(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert run("show", "minutes", "--savepoint", SECOND, "--out", str(out)).exit_code == 0
    assert duckdb.sql(f"SELECT sum(value) FROM '{out}'").fetchall() == [(15,)]
    again = run("show", "minutes", "--savepoint", SECOND, "--out", str(out))
    assert isinstance(again.exception, ConfigInvalid)
    assert run("show", "sessions", "--savepoint", SECOND, "--out", str(tmp_path / "out.csv")).exit_code == 0
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert {(row["key"], row["value"]) for row in csv.DictReader(io.StringIO(text))} == {("alice", "3"), ("bob", "1")}
    wrong = run("show", "totals", "--savepoint", SECOND, "--out", str(tmp_path / "out.xlsx"))
    assert isinstance(wrong.exception, ConfigInvalid)
    assert ".json, .csv, .parquet" in wrong.exception.next_step


def test_equal_different_and_nothing_compared_are_three_exit_codes(run: Run) -> None:
    equal = run("diff", "totals", SECOND, SECOND)
    assert equal.exit_code == 0
    assert "5 keys compared" in equal.stderr
    different = run("diff", "totals", FIRST, SECOND)
    assert different.exit_code == DIFFERENT
    assert "1 changed, 1 added, 1 removed" in " ".join(different.stderr.split())
    assert "zoe" in different.stdout
    nothing = run("diff", "empty", FIRST, SECOND)
    assert nothing.exit_code == NOTHING_COMPARED
    assert "nothing was compared" in nothing.stderr
    assert len({0, DIFFERENT, NOTHING_COMPARED}) == 3


def test_a_comparison_as_json(run: Run) -> None:
    found = run("diff", "totals", FIRST, SECOND, "--json", "--limit", "1")
    plain = json.loads(found.stdout)
    assert found.exit_code == DIFFERENT
    assert plain["counts"] == {"before": 5, "after": 5, "compared": 6, "added": 1, "removed": 1, "changed": 1}
    assert len(plain["differences"]) == 1
    everything = json.loads(run("diff", "totals", FIRST, SECOND, "--json", "--limit", "0").stdout)["differences"]
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
    assert run("show", "totals", "--savepoint", SECOND, "--out", str(table)).exit_code == 0
    table.write_text(table.read_text(encoding="utf-8").replace('{"count": 100}', '{"count": 101}'), encoding="utf-8")
    arguments = ("totals", "--from", str(table), "--savepoint", SECOND, "--reason", "recount")
    dry = run("write", *arguments, "--plan")
    assert dry.exit_code == 0
    assert "4 keys as they were, 1 changed, 0 added, 0 removed" in dry.stderr
    assert "nothing was written" in dry.stderr
    made = json.loads(run("write", *arguments, "--json").stdout)
    differences = run("diff", "totals", SECOND, made["savepoint_id"])
    assert differences.exit_code == DIFFERENT
    assert "1 changed, 0 added, 0 removed" in " ".join(differences.stderr.split())
    listed = CliRunner().invoke(app, ["savepoints", "list", "shop", "--configs", str(tmp_path), "--json"], env=environment())
    assert [one["consistency"] for one in json.loads(listed.stdout) if one["savepoint_id"] == made["savepoint_id"]] == ["edited"]


def test_records_of_a_topic_in_a_savepoint(run: Run) -> None:
    shown = run("records", "shop-totals-changelog", "--savepoint", SECOND, "--json")
    assert shown.exit_code == 0, shown.output
    records = json.loads(shown.stdout)
    assert {"topic", "partition", "offset", "timestamp", "key", "value", "headers"} == set(records[0])
    assert f"{len(records)} records of shop-totals-changelog" in shown.stderr
    one = records[0]
    again = run(
        *("records", "shop-totals-changelog", "--savepoint", SECOND, "--json", "--limit", "1"),
        *("--partition", str(one["partition"]), "--offset", str(one["offset"])),
    )
    assert json.loads(again.stdout) == [one]
    newest = [record for record in records if record["partition"] == one["partition"]][-1]
    last = run("records", "shop-totals-changelog", "--savepoint", SECOND, "--json", "--limit", "1", "--partition", str(one["partition"]))
    assert json.loads(last.stdout) == [newest]
    assert "alice" in run("records", "shop-totals-changelog", "--savepoint", SECOND).stdout


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("gone",), NotFound, "has no topic gone"),
        (("shop-totals-changelog", "--partition", "9"), NotFound, "has no partition 9"),
        (("orders",), Refused, "has no records of orders"),
        (("orders", "--offset", "3"), ConfigInvalid, "an offset belongs to one partition"),
    ],
)
def test_records_that_cannot_be_shown_are_an_error(run: Run, words: tuple[str, ...], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        raise run("records", *words, "--savepoint", SECOND).exception or AssertionError
